"""The paper's tables on the shipped models and the time of one decision: `surescale bench policies --quick`, `... inference`."""

from model_export.paper.commands import inference, policies

if __name__ == "__main__":
    policies(["--quick"], standalone_mode=False)
    inference(["--states", "50"], standalone_mode=False)
