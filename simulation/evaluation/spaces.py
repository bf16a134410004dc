"""The constants that calibration may set in each rule, and their ranges; shipped constants lie well inside each range."""

import msgspec
import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.policies.answer import Float64
from surescale.policies.forecast import TRENDS, Forecast, forecast_inputs
from surescale.policies.rules.drs import DRS
from surescale.policies.rules.ds2 import DS2, GatedDS2
from surescale.policies.rules.flink import FlinkAutoscaler
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.rules.hpa import HorizontalPodAutoscaler
from surescale.policies.rules.lag import Lag
from surescale.policies.rules.reading import ESTIMATES
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.rules.threshold import Threshold
from surescale.policies.sizing import Sizing
from surescale.simulation.evaluation.search import Axis, Constant
from surescale.simulation.evaluation.tune import Space
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.hourly import HourlyFigures

SHRINK = 10.0  # weight of the shipped forecast in the fit, in summed squares of the inputs
EVERY_MINUTES = 10
LEAST_LOAD = 1e-3  # records a minute
SHIPPED, FITTED = "shipped", "fitted"

_UTILISATION = Axis("utilisation", 0.4, 0.98)
_ESTIMATE = Axis("estimate", values=ESTIMATES)
_NEED = Axis("need", 0.05, 0.5)
_SAVING = Axis("saving", 0.04, 0.36)
_METRIC = Axis("metric_minutes", values=(10, 20, 30, 60))
_METRICS = Axis("metrics_minutes", values=(5, 15, 30, 60))


def spaces(forecast: ForecastRule | None, part: Workload, first: int) -> dict[str, Space]:
    """Return the space of every rule that can be calibrated; the forecast is fitted to ``part`` from ``first`` on."""
    found = {
        "ds2": _space((_UTILISATION, _ESTIMATE), DS2),
        "ds2-gate": _space((_UTILISATION, _NEED, _SAVING, _ESTIMATE), GatedDS2),
        "flink": _space((_UTILISATION, Axis("boundary", 0.02, 0.4), _METRICS), FlinkAutoscaler),
        "hpa": _space((Axis("target", 0.3, 0.95), Axis("tolerance", 0.05, 0.3), _METRIC), HorizontalPodAutoscaler),
        "lag": _space((Axis("threshold_minutes", 0.001, 10.0, log=True),), Lag),
        "drs": _space((Axis("sojourn", 1.005, 20.0, log=True), _ESTIMATE), DRS),
        "threshold": _space((Axis("high", 0.5, 0.98), Axis("low", 0.1, 0.48), _METRIC), Threshold),
        "target-utilisation": Space(
            axes=(_UTILISATION, _NEED, _SAVING, _ESTIMATE),
            shipped={**_of_sizing(TargetUtilisation().sizing), "estimate": TargetUtilisation().estimate},
            make=_target_utilisation,
        ),
    }
    if forecast is not None:
        found["forecast"] = _forecast_space(forecast, part, first)
    return found


def _space(axes: tuple[Axis, ...], rule: type) -> Space:
    shipped = rule()
    return Space(axes, {axis.name: getattr(shipped, axis.name) for axis in axes}, lambda chosen: rule(**chosen))


def _of_sizing(sizing: Sizing) -> dict[str, Constant]:
    return {axis.name: getattr(sizing, axis.name) for axis in (_UTILISATION, _NEED, _SAVING)}


def _target_utilisation(chosen: dict[str, Constant]) -> TargetUtilisation:
    sizing = {name: value for name, value in chosen.items() if name != "estimate"}
    rule = TargetUtilisation()
    return TargetUtilisation(sizing=msgspec.structs.replace(rule.sizing, **sizing), estimate=chosen["estimate"])  # type: ignore[arg-type]


def _forecast_space(rule: ForecastRule, part: Workload, first: int) -> Space:
    base = rule.base
    forecasts = {SHIPPED: base.forecast, FITTED: fitted(base.forecast, part, first)}

    def make(chosen: dict[str, Constant]) -> ForecastRule:
        sizing = {name: value for name, value in chosen.items() if name != "weights"}
        forecast = forecasts[str(chosen["weights"])]
        return ForecastRule(
            msgspec.structs.replace(base, forecast=forecast, sizing=msgspec.structs.replace(base.sizing, **sizing))
        )

    return Space(
        axes=(_UTILISATION, _NEED, _SAVING, Axis("weights", values=(SHIPPED, FITTED))),
        shipped={**_of_sizing(base.sizing), "weights": SHIPPED},
        make=make,
    )


def fitted(shipped: Forecast, part: Workload, first: int) -> Forecast:
    """Return the forecast fitted by ridge regression to minutes from ``first`` on, pulled towards the shipped weights.

    The pull is needed because a few days are little data for eight weights. Without any data, the shipped forecast is returned.
    """
    requests = part.requests.astype(np.float64)
    at = np.arange(first + 120, len(requests) - shipped.horizon_minutes, EVERY_MINUTES)
    if not len(at):
        return shipped
    cumulated = np.concatenate([[0.0], np.cumsum(requests)])
    loads = np.where(part.masked, np.nan, requests)[at[:, None] - 60 + np.arange(60)]
    inputs, known = forecast_inputs(
        loads, HourlyFigures.loads(requests, part.masked).before(at), part.trace_start_ms + at * MINUTE_MS
    )
    coming = (cumulated[at + shipped.horizon_minutes] - cumulated[at]) / shipped.horizon_minutes
    seen = np.nan_to_num(loads).mean(axis=1)
    # From or to a load of zero there is no ratio that could be learned.
    whole = part.is_whole(at, 60, shipped.horizon_minutes) & (np.minimum(coming, seen) >= LEAST_LOAD)
    target = np.log(np.maximum(coming, LEAST_LOAD) / np.maximum(seen, LEAST_LOAD))
    return msgspec.structs.replace(
        shipped,
        with_history=_drawn(inputs[known & whole], target[known & whole], shipped.with_history),
        trend_only=_drawn(inputs[whole, :TRENDS], target[whole], shipped.trend_only),
    )


def _drawn(inputs: Float64, target: Float64, shipped: tuple[float, ...]) -> tuple[float, ...]:
    design = np.column_stack([inputs, np.ones(len(inputs))])
    before = np.array(shipped)
    matrix = design.T @ design + SHRINK * np.eye(len(before))
    weights = before + np.linalg.solve(matrix, design.T @ (target - design @ before))
    return tuple(round(float(weight), 6) for weight in weights)
