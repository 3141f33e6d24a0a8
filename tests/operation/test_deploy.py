"""The files in deploy/: what their tools accept, what the server accepts, and that they fit each other."""

import json
import re
import subprocess
import urllib.request

import kubernetes_validate
import pytest
import yaml

from harness.memcached.proxy import nutcracker
from harness.network.claims import free_port
from harness.server import PROJECT, command, run, run_ctl

DEPLOY = PROJECT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
SCHEMAS = "1.37"
MARGIN_MIB = 64


def mib(quantity):
    """A Kubernetes quantity or one of Docker's in MiB."""
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi|m)", quantity).groups()
    return int(number) * (1024 if unit == "Gi" else 1)


def settings(path):
    """The variables of a file of assignments."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def replace_image(folder, kustomization, found):
    """Puts the image's name of the generated ConfigMap in its place, as the replacement does."""
    (generated,), (replacement,) = kustomization["configMapGenerator"], kustomization["replacements"]
    source, (target,) = replacement["source"], replacement["targets"]
    assert (source["kind"], source["name"]) == ("ConfigMap", generated["name"])
    assert generated["options"]["annotations"] == {"config.kubernetes.io/local-config": "true"}
    (file,), (path,) = generated["envs"], target["fieldPaths"]
    assert path == "spec.template.spec.containers.[name=micanite].image"
    (one,) = found[target["select"]["kind"]]["spec"]["template"]["spec"]["containers"]
    assert one["name"] == "micanite"
    one["image"] = settings(folder / file)[source["fieldPath"].removeprefix("data.")]


def objects(folder):
    """The objects that a kustomization is made of, by their kinds, with its patches."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found = {}
    for name in kustomization["resources"]:
        path = folder / name
        listed = objects(path) if path.is_dir() else {(one := yaml.safe_load(path.read_text()))["kind"]: one}
        assert not listed.keys() & found.keys()
        found |= listed
    if "replacements" in kustomization:
        replace_image(folder, kustomization, found)
    for patch in kustomization.get("patches", []):
        for operation in yaml.safe_load(patch["patch"]):
            apply(found[patch["target"]["kind"]], operation)
    return found


def apply(target, operation):
    """One operation of a JSON patch."""
    *way, last = operation["path"].strip("/").split("/")
    for step in way:
        target = target[int(step) if step.isdigit() else step]
    if operation["op"] == "remove":
        del target[int(last) if last.isdigit() else last]
    else:
        assert operation["op"] == "add" and last not in target
        target[last] = operation["value"]


@pytest.fixture(params=["memory", "disk"])
def kinds(request):
    """The objects of one of the ways to run it on Kubernetes."""
    return objects(KUBERNETES / request.param)


def container(kinds):
    """The container of the server."""
    (one,) = kinds["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return one


def option(arguments, name):
    """The value of an option, which stands there once."""
    (value,) = [one.split("=", 1)[1] for one in arguments if one.startswith(f"--{name}=")]
    return value


def beside_mib(server):
    """Returns the MiB that the server says it takes beside the memory for items."""
    number, unit = re.search(r"beside +.* now, at most ([\d.]+) (MiB|GiB)", server.stderr()).groups()
    return float(number) * (1024 if unit == "GiB" else 1)


def test_one_place_names_the_image(kinds):
    """Kubernetes and compose read it from one file, which has the image of this version."""
    told = subprocess.run([command()[0], "--version"], capture_output=True, text=True, check=True)
    named = f"micanite:{told.stdout.split()[1]}"
    assert container(kinds)["image"] == named
    files = [path.read_text() for path in DEPLOY.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(text.count(named) for text in files) == 1
    compose = (DEPLOY / "compose/compose.yaml").read_text()
    (image,) = re.findall(r"^ +image: (.*)$", compose, re.MULTILINE)
    assert image.startswith("${MICANITE_IMAGE:?") and settings(DEPLOY / "compose/.env") == {
        "MICANITE_IMAGE": named
    }


def test_kubernetes_accepts_the_objects(kinds):
    assert set(kinds) == {"Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}
    for one in kinds.values():
        kubernetes_validate.validate(one, SCHEMAS, strict=True)


def test_the_objects_fit_each_other(kinds):
    stateful, service = kinds["StatefulSet"]["spec"], kinds["Service"]["spec"]
    pod, label = stateful["template"]["spec"], stateful["template"]["metadata"]["labels"]
    assert (
        service["clusterIP"] == "None" and service["selector"] == label == stateful["selector"]["matchLabels"]
    )
    assert stateful["serviceName"] == kinds["Service"]["metadata"]["name"]
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == label
    policy = kinds["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == label
    ports = {port["name"]: port["containerPort"] for port in container(kinds)["ports"]}
    clients, metrics = policy["ingress"]
    assert service["ports"][0]["targetPort"] == clients["ports"][0]["port"] == "memcache"
    assert metrics["ports"][0]["port"] == "metrics"
    assert ports["memcache"] == int(option(container(kinds)["args"], "port"))
    assert ports["metrics"] == int(option(container(kinds)["args"], "admin").rpartition(":")[2])
    claims = [claim["metadata"]["name"] for claim in stateful.get("volumeClaimTemplates", [])]
    volumes = [volume["name"] for volume in pod["volumes"]]
    assert sorted(claims + volumes) == sorted(mount["name"] for mount in container(kinds)["volumeMounts"])


def test_the_server_accepts_the_arguments(kinds):
    assert container(kinds)["command"] == ["/usr/bin/micanite", "serve"]
    options = container(kinds)["args"]
    printed = run(*options, "--print-config")
    assert printed.returncode == 0, printed.stderr
    mounts = [mount["mountPath"] for mount in container(kinds)["volumeMounts"]]
    for path in (option(options, "image"), option(options, "control-socket")):
        assert path.rsplit("/", 1)[0] in mounts, "the rest of the file system is read-only"


def test_the_server_starts_in_volumes_that_all_may_write(kinds, start, tmp_path):
    """Kubernetes makes a volume with mode 2777: the control socket at its root was once refused, and the
    server with it."""
    options, paths = container(kinds)["args"], []
    for mount in container(kinds)["volumeMounts"]:
        volume = tmp_path / mount["mountPath"].lstrip("/")
        volume.mkdir(parents=True)
        volume.chmod(0o2777)
    for name in ("image", "control-socket"):
        paths += [f"--{name}", f"{tmp_path}{option(options, name)}"]
    elsewhere = ("--listen", "--port", "--admin", "--memory-limit", "--image", "--control-socket")
    server = start("-m", 64, *paths, *(one for one in options if not one.startswith(elsewhere)))
    told = run_ctl("--socket", paths[-1], "stats")
    assert f"STAT pid {server.pid}\n" in told.stdout, told.stderr


def test_the_memory_limit_has_room_for_everything(kinds, start):
    one = container(kinds)
    items_mib = int(option(one["args"], "memory-limit"))
    settings = ["-t", option(one["args"], "threads"), "-c", option(one["args"], "max-connections")]
    needed_mib = items_mib + beside_mib(start("-m", 64, *settings)) + MARGIN_MIB
    assert needed_mib <= mib(one["resources"]["limits"]["memory"]) <= 1.25 * needed_mib
    for volume in kinds["StatefulSet"]["spec"]["template"]["spec"]["volumes"]:
        if volume["name"] == "image":
            assert items_mib < mib(volume["emptyDir"]["sizeLimit"])


def test_probes_ask_for_existing_paths(kinds, start):
    """The server has its metrics at another port. The paths answer until it ends."""
    server = start("-t", 1, "-m", 64, "--admin", f"127.0.0.1:{(port := free_port())}")
    probes = [container(kinds)[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert {probe["port"] for probe in probes} == {"metrics"}
    assert [probe["path"] for probe in probes] == ["/readyz", "/readyz", "/healthz"]
    for probe in probes:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{probe['path']}", timeout=30) as reply:
            assert reply.status == 200
    server.process.kill()
    server.wait_for_end()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}{probes[0]['path']}", timeout=30)


@pytest.mark.parametrize("name", ["nutcracker/nutcracker.yml", "compose/nutcracker.yml"])
def test_nutcracker_accepts_its_configuration(name):
    checked = subprocess.run(
        [nutcracker(), "-t", "-c", DEPLOY / name], capture_output=True, text=True, timeout=30
    )
    assert checked.returncode == 0 and "syntax is ok" in checked.stderr, checked.stderr


def test_compose(start):
    """The test checks parts without a schema here: the server's arguments, the limit, the files, the names.
    """
    whole = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    proxy = whole["services"]["proxy"]
    servers = {name: service for name, service in whole["services"].items() if name != "proxy"}
    pool = yaml.safe_load((DEPLOY / "compose/nutcracker.yml").read_text())["wait"]
    assert [server.split(":")[0] for server in pool["servers"]] == list(servers) == proxy["depends_on"]
    assert (DEPLOY / "compose" / proxy["build"]["dockerfile"]).is_file()
    assert proxy["ports"] == [f"127.0.0.1:11211:{pool['listen'].split(':')[1]}"]
    for name, service in servers.items():
        assert service["volumes"] == [f"{name}:/var/lib/micanite"] and name in whole["volumes"]
        assert option(service["command"], "image").startswith("/var/lib/micanite/")
        printed = run(*service["command"], "--print-config")
        assert printed.returncode == 0, printed.stderr
        assert service["networks"] == ["servers"] and whole["networks"]["servers"]["internal"] is True
        items_mib = int(option(service["command"], "memory-limit"))
        assert mib(service["mem_limit"]) >= items_mib + beside_mib(start("-m", 64, "-t", 2)) + MARGIN_MIB


# Route handles and their properties, as mcrouter's documentation lists them.
ROUTES = {
    "AllSyncRoute": {"children"},
    "FailoverWithExptimeRoute": {"normal", "failover", "failover_exptime"},
    "LatestRoute": {"children", "failover_count"},
    "MissFailoverRoute": {"children"},
    "OperationSelectorRoute": {"operation_policies", "default_policy"},
    "WarmUpRoute": {"cold", "warm", "exptime"},
}
HANDLES = {"children", "normal", "failover", "operation_policies", "default_policy", "cold", "warm"}


def check_route(route, pools):
    """A route handle: a pool, or an object whose properties are documented. Gives the pools that it reaches.
    """
    if isinstance(route, str):
        kind, pool = route.split("|")
        assert kind in ("PoolRoute", "Pool") and pool in pools, route
        return {pool}
    if isinstance(route, list):
        return set().union(*(check_route(one, pools) for one in route))
    kind = route["type"]
    assert set(route) - {"type"} <= ROUTES[kind], route
    reached = set()
    for name in set(route) & HANDLES:
        handles = list(route[name].values()) if name == "operation_policies" else route[name]
        reached |= check_route(handles, pools)
    return reached


@pytest.mark.parametrize("name", ["sharded", "failover", "replicated", "sharded-replicated", "warm-up"])
def test_mcrouter_configurations_have_the_documented_shape(name):
    """mcrouter itself is in no package source here: its form is checked, not its mind."""
    text = (DEPLOY / f"mcrouter/{name}.json").read_text()
    whole = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert set(whole) == {"pools", "route"}
    for pool in whole["pools"].values():
        assert set(pool) == {"servers", "protocol"} and pool["protocol"] == "ascii"
        assert all(re.fullmatch(r"[\d.]+:\d+", server) for server in pool["servers"])
    assert check_route(whole["route"], whole["pools"]) == set(whole["pools"])
    assert f"file:{name}.json" in text
