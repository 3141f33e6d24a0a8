"""The Grafana dashboard and the alerting rules name only metrics, and labels of metrics, that there are."""

import json
import re
import shutil
import subprocess

import pytest

from harness.admin import Admin
from harness.server import PROJECT

DASHBOARD = PROJECT / "dashboards/micanite.json"
ALERTS = PROJECT / "dashboards/alerts.yml"
# Names that Prometheus and Grafana add by themselves.
THEIRS = {"up", "instance", "job", "le"}


@pytest.fixture(scope="module")
def labels():
    """The labels of each metric of a server with everything that has metrics of its own."""
    from harness.server import Server

    # The kernel answers nothing there, but its counters exist.
    kernel = ["--kernel-get", "lo"]
    server = Server("-t", 2, "-m", "64", "--admin", "-1", "--native", "-1", "-U", "-1", *kernel)
    try:
        found = {}
        for family in Admin(server).families():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        yield found
    finally:
        server.end()


def dashboard_expressions():
    """Every query of the dashboard, with the title of its panel."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield f"{panel['title']} {target['refId']}", target["expr"]


def alert_expressions():
    """Every rule's expression."""
    text = ALERTS.read_text()
    names = re.findall(r"- alert: (\w+)", text)
    expressions = re.findall(r"^ +expr: (.*)$", text, re.MULTILINE)
    assert names
    return zip(names, expressions, strict=True)


def metrics(expression):
    """(name, labels) of each metric in an expression."""
    for name, selector in re.findall(r"\b((?:micanite|process)_\w+|up)\b(?:\{([^}]*)\})?", expression):
        yield name, set(re.findall(r"(\w+)\s*[=!]", selector))


@pytest.mark.parametrize(("title", "expression"), [*dashboard_expressions(), *alert_expressions()])
def test_queries_name_existing_metrics(labels, title, expression):
    found = list(metrics(expression))
    assert found, expression
    for name, selected in found:
        assert name in THEIRS or name in labels, f"{title}: {name}"
        assert selected <= THEIRS | labels.get(name, set()), f"{title}: {name}{selected}"
    grouped = {
        label for group in re.findall(r"\bby \(([^)]*)\)", expression) for label in re.split(r",\s*", group)
    }
    assert grouped <= THEIRS | {"owner"} | set().union(*(labels.get(name, set()) for name, _ in found)), title


def test_the_dashboard_is_one_that_grafana_takes():
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "micanite" and dashboard["schemaVersion"] >= 36
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) == 23
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "instance"}


def test_every_rule_has_a_description():
    text = ALERTS.read_text()
    assert text.count("- alert:") == text.count("severity:") == text.count("summary:")


def test_promtool_takes_the_rules(tmp_path):
    """The queries of the dashboard, too: as rules, with values in place of Grafana's variables."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, (_, query) in enumerate(dashboard_expressions())
    ]
    queries = tmp_path / "queries.yml"
    # JSON is YAML.
    queries.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    for file in (ALERTS, queries):
        checked = subprocess.run(
            [promtool, "check", "rules", file], capture_output=True, text=True, timeout=60
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
