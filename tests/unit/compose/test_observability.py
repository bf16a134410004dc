"""Dashboard, alert rules and scrape settings without Prometheus or Grafana: they name what the roles show, and nothing else."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from surescale.runtime.metrics import COMMON, PROCESS, Metric
from tests.support.waiting import PATIENT_S

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "compose/observability"
DASHBOARD = json.loads((FOLDER / "grafana/dashboards/surescale.json").read_text())
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
COMPOSE = yaml.safe_load((ROOT / "compose/compose.yaml").read_text())["services"]
TABLE: dict[str, Metric] = {
    metric.name: metric
    for table in (COMMON, *(point.load() for point in entry_points(group="surescale.metrics")))
    for metric in table
}
OF_PROMETHEUS = {"up", *PROCESS}
OF_TARGETS = {"job", "instance"}
WORDS = {
    "absent",
    "by",
    "sum",
    "max",
    "and",
    "label_replace",
    "last_over_time",
    "min_over_time",
    "min",
    "changes",
    "count",
    "rate",
    "increase",
    "histogram_quantile",
    "or",
    "unless",
    "offset",
    "vector",
}


def targets(panels: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Yield every query of the dashboard."""
    for panel in panels:
        yield from panel.get("targets", [])


QUERIES = [target["expr"] for target in targets(DASHBOARD["panels"])] + [rule["expr"] for rule in RULES]


def metrics_of(query: str) -> set[str]:
    """Return the metrics that a query names, histograms without the suffix of their series."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|(by|on|group_left) \([^)]*\)|\"[^\"]*\"", " ", query)
    names = set(re.findall(r"[a-z][a-z_]+", bare)) - WORDS
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name not in TABLE else name for name in names}


def labels_of(query: str) -> set[str]:
    """Return the labels that a query selects and divides by."""
    selected = re.findall(r"([a-z_]+)\s*(?:=~|!=|=|!~)", "".join(re.findall(r"\{[^}]*\}", query)))
    divided = [label.strip() for labels in re.findall(r"by \(([^)]*)\)", query) for label in labels.split(",")]
    return {*selected, *divided}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_metrics_and_labels_that_exist(query: str) -> None:
    """A metric that is renamed must be renamed here, too."""
    named = metrics_of(query)
    assert named <= OF_PROMETHEUS | set(TABLE)
    known = {label for name in named & set(TABLE) for label in TABLE[name].labels}
    assert labels_of(query) <= known | OF_TARGETS | {"le"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_selects_by_nothing_that_only_some_scrape_adds(rule: dict[str, Any]) -> None:
    """Each selects by labels of its own metric: what a target is called differs between Compose, annotations and a PodMonitor."""
    for name, selected in re.findall(r"(\w+)\{([^}]*)\}", rule["expr"]):
        assert set(re.findall(r"(\w+)\s*(?:=~|!=|=|!~)", selected)) <= set(TABLE[name].labels)
    assert set(re.findall(r"\bon \(([^)]*)\)", rule["expr"])) <= {"job, instance", "role"}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_each_kind_as_it_must_be_asked(query: str) -> None:
    """Counters by what they grew, except for totals since the start; histograms by their buckets."""
    for name in metrics_of(query) & set(TABLE):
        if TABLE[name].kind == "histogram":
            assert f"{name}_bucket" in query
        if TABLE[name].kind == "counter":
            assert re.search(rf"(rate|increase)\({name}\b|sum\({name}\)|unless {name} offset", query)


def test_every_role_is_seen() -> None:
    """By its own figures, in the dashboard or in a rule."""
    shown = {name for query in QUERIES for name in metrics_of(query)}
    for point in entry_points(group="surescale.metrics"):
        assert shown & {metric.name for metric in point.load()}, point.name


def test_what_a_legend_shows_is_a_label_of_its_query() -> None:
    """Else it would stay empty."""
    for target in targets(DASHBOARD["panels"]):
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        has_all = "by (" not in target["expr"]
        every = {label for name in metrics_of(target["expr"]) & set(TABLE) for label in TABLE[name].labels} | OF_TARGETS
        assert shown <= (every if has_all else labels_of(target["expr"])), target


def test_the_dashboard_is_laid_out_without_gaps_in_its_ids_or_overlaps() -> None:
    """Every panel has a place of its own on a grid of 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_dashboard_asks_the_datasource_that_is_provisioned() -> None:
    """By its id; and the datasource is the service of the Compose file."""
    (source,) = yaml.safe_load((FOLDER / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert {target["datasource"]["uid"] for target in targets(DASHBOARD["panels"])} == {source["uid"]}  # type: ignore[index]


def test_prometheus_reads_every_role_where_it_listens() -> None:
    """By the names of the Compose file's services, at the image's health port; the engine at its own."""
    (scrape,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    ports = {name: found["port"] for found in scrape["dns_sd_configs"] for name in found["names"]}
    image_port = int(re.search(r"SURESCALE_HEALTH_PORT=(\d+)", (ROOT / "compose/Dockerfile").read_text())[1])  # type: ignore[index]
    roles = ("monitor", "spark", "agent", "rescaler", "state")
    assert ports == {**dict.fromkeys(roles, image_port), "engine": int(COMPOSE["engine"]["environment"]["SURESCALE_HEALTH_PORT"])}
    assert all(COMPOSE[name]["environment"]["SURESCALE_HEALTH_HOST"] == "0.0.0.0" for name in ports)


def test_what_is_mounted_exists_and_where_it_is_looked_for() -> None:
    """Settings, rules, provisioning, dashboards."""
    mounts = dict(
        volume.split(":")[:2] for name in ("prometheus", "grafana") for volume in COMPOSE[name]["volumes"] if volume[0] == "."
    )
    assert all((ROOT / "compose" / source).exists() for source in mounts)
    (rules,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["rule_files"]
    (provider,) = yaml.safe_load((FOLDER / "grafana/provisioning/dashboards/surescale.yml").read_text())["providers"]
    assert rules in mounts.values()
    assert provider["options"]["path"] in mounts.values()


def test_every_alert_says_how_bad_it_is_and_what_it_means() -> None:
    """And its summary shows labels that its query leaves it, or adds."""
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        added = set(re.findall(r"\"(\w+)\", \"[\w-]+\", \"\", \"\"\)", rule["expr"]))
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) - added
        divided = re.findall(r"by \(([^)]*)\)", rule["expr"])
        left = {label.strip() for labels in divided for label in labels.split(",")} if divided else shown
        assert shown <= left, rule["alert"]
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def promtool(*command: str, folder: Path) -> None:
    """Run Prometheus' own tool, which tries alert rules."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool, which tries alert rules, is not installed (Debian: package prometheus)")
    done = subprocess.run([tool, *command], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_do_what_they_should_on_made_up_series() -> None:
    """As alerts_test.yml has it."""
    promtool("check", "rules", "alerts.yml", folder=FOLDER)
    promtool("test", "rules", "alerts_test.yml", folder=FOLDER)


ROLES = {"monitor": "monitor", "spark": "spark", "agent": "agent", "rescaler": "rescaler", "state": "state-service"}
"""What each role is called by its pod and by its metrics."""
SCRAPES: dict[str, dict[str, str]] = {
    "annotations": {
        "job": "kubernetes-pods",
        "app_kubernetes_io_part_of": "surescale",
        "app_kubernetes_io_instance": "sizes",
        "cluster": "eu-1",
    },
    "a PodMonitor": {"job": "streaming/sizes", "endpoint": "metrics"},
    "Compose": {"job": "surescale"},
}
"""Labels that a scrape of the chart's pods adds: Prometheus' example for pods with annotations maps the pods' labels, and the
operator names the job after the monitor. Pods of both have a namespace and a name too."""


def scraped(role: str, scrape: str) -> dict[str, str]:
    """Return the labels of a role's target."""
    pods = {} if scrape == "Compose" else {"namespace": "streaming", "pod": f"sizes-{role}-0"}
    named = {"app_kubernetes_io_name": f"sizes-{role}"} if scrape == "annotations" else {}
    inside = {"container": role} if scrape == "a PodMonitor" else {}
    return {**SCRAPES[scrape], **pods, **named, **inside, "instance": f"10.0.0.{len(role)}{ord(role[0])}:8099"}


def series(name: str, labels: dict[str, str], values: str) -> dict[str, str]:
    """Return one made-up series, as promtool reads it."""
    inside = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


@pytest.mark.parametrize("scrape", SCRAPES)
def test_the_rules_see_what_is_wrong_and_nothing_else_on_the_charts_own_labels(tmp_path: Path, scrape: str) -> None:
    """Nothing while all is well; then a role no longer answers, one is gone, and no monitor and no rescaler is active."""
    ends = {"agent": ("1x20 0x60", "1x20 stale"), "spark": ("1x20 stale", "1x20 stale")}
    well = ("1x80", "1x80")
    made = []
    for pod, role in ROLES.items():
        target = scraped(pod, scrape)
        up, own = ends.get(pod, well)
        made += [series("up", target, up), series("surescale_alive", target | {"role": role}, own)]
        made += [series("surescale_ready", target | {"role": role}, own)]
    made += [series("surescale_rescaler_active", scraped("rescaler", scrape) | {"streaming_cluster": "prod"}, "1x20 0x60")]
    made += [series("surescale_monitor_active", scraped("monitor", scrape) | {"streaming_cluster": "prod"}, "1x20 0x60")]

    def fires(alert: str, **more: str) -> dict[str, Any]:
        (rule,) = (each for each in RULES if each["alert"] == alert)
        summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: more[found[1]], rule["annotations"]["summary"])
        return {
            "exp_labels": more | {"severity": rule["labels"]["severity"]},
            "exp_annotations": rule["annotations"] | {"summary": summary},
        }

    later = {
        "SurescaleRoleDown": [fires("SurescaleRoleDown", **scraped("agent", scrape), role="agent")],
        "SurescaleRoleMissing": [fires("SurescaleRoleMissing", role="spark")],
        "SurescaleNoActiveMonitor": [fires("SurescaleNoActiveMonitor", streaming_cluster="prod")],
        "SurescaleNoActiveRescaler": [fires("SurescaleNoActiveRescaler", streaming_cluster="prod")],
    }
    cases = [{"eval_time": "4m", "alertname": rule["alert"], "exp_alerts": []} for rule in RULES]
    cases += [{"eval_time": "15m", "alertname": rule["alert"], "exp_alerts": later.get(rule["alert"], [])} for rule in RULES]
    test = {"interval": "15s", "input_series": made, "alert_rule_test": cases}
    whole = {"rule_files": [str(FOLDER / "alerts.yml")], "evaluation_interval": "15s", "tests": [test]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(whole))
    promtool("test", "rules", "test.yml", folder=tmp_path)


def test_the_query_given_for_keda_is_the_wanted_size_while_figures_are_fresh_and_empty_else(tmp_path: Path) -> None:
    """Of the example in docs/kubernetes.md, on series of two jobs and of both replicas of the state service."""
    example = re.search(r"```yaml\n( +- type: prometheus.*?)```", (ROOT / "docs/kubernetes.md").read_text(), re.DOTALL)
    assert example is not None
    query = " ".join(yaml.safe_load(example[1])[0]["metadata"]["query"].split())
    assert set(re.findall(r"surescale_\w+", query)) <= set(TABLE)
    made = [
        each
        for pod in ("state-0", "state-1")
        for job, sizes, stale in (("kafka/orders", "3x10 7x20", "0x20 1x10"), ("kafka/other", "12x30", "0x30"))
        for each in (
            series("surescale_state_task_desired_parallelism", {"streaming_job": job, "task": "parse", "instance": pod}, sizes),
            series("surescale_state_task_desired_parallelism", {"streaming_job": job, "task": "send", "instance": pod}, "9x30"),
            series("surescale_state_job_stale", {"streaming_job": job, "instance": pod}, stale),
        )
    ]
    cases = [
        {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": value}] if value else []}
        for at, value in (("5m", 3), ("15m", 7), ("25m", None))
    ]
    test = {"interval": "1m", "input_series": made, "promql_expr_test": cases}
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", "test.yml", folder=tmp_path)


def test_every_alert_is_tried() -> None:
    """No rule without a made-up series."""
    tried = {
        case["alertname"]
        for test in yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
        for case in test["alert_rule_test"]
    }
    assert tried == {rule["alert"] for rule in RULES}
