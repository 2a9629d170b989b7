#!/usr/bin/env python3
"""The manifests of deploy/kubernetes/: against Kubernetes' own schemas (unknown fields are errors), and against each
other where a schema cannot see that two places must agree. Runs in the Python environment of the tests; exit status 77
where that is missing."""

import os
import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes"
OLDEST, NEWEST = "1.33", "1.37"  # successPolicy is in all of these
PORT = 7600


def documents(name):
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")) if document]


def one(name, kind):
    found = [document for document in documents(name) if document["kind"] == kind]
    assert len(found) == 1, f"{name}: {len(found)} of kind {kind}"
    return found[0]


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


class Manifests(unittest.TestCase):
    def test_follow_the_schemas_strictly(self):
        files = sorted(path.name for path in FOLDER.glob("*.yaml"))
        self.assertEqual(files, ["actors.yaml", "run.yaml"])
        for name in files:
            for document in documents(name):
                for version in OLDEST, NEWEST:
                    with self.subTest(file=name, kind=document["kind"], version=version):
                        kubernetes_validate.validate(document, version, strict=True)

    def test_a_wrong_field_would_be_found(self):
        job = one("run.yaml", "Job")
        job["spec"]["completionsMode"] = "Indexed"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(job, NEWEST, strict=True)

    def test_the_number_of_pods_is_the_same_in_all_places(self):
        job = one("run.yaml", "Job")["spec"]
        environment = {v["name"]: v.get("value") for v in job["template"]["spec"]["containers"][0]["env"]}
        self.assertEqual(job["completions"], job["parallelism"])
        self.assertEqual(environment["TROUPE_NODES"], str(job["completions"]))

    def test_pods_are_found_through_the_service(self):
        job, service = one("run.yaml", "Job"), one("run.yaml", "Service")
        environment = {v["name"]: v.get("value") for v in pod_of(job)["containers"][0]["env"]}
        labels = job["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(service["spec"]["clusterIP"], "None")
        self.assertLessEqual(service["spec"]["selector"].items(), labels.items())
        self.assertEqual(pod_of(job)["subdomain"], service["metadata"]["name"])
        self.assertEqual(environment["TROUPE_SERVICE"], service["metadata"]["name"])
        self.assertEqual(service["spec"]["ports"][0]["port"], PORT)

    def test_the_further_actors_are_not_taken_for_pods_of_the_job(self):
        service, actors = one("run.yaml", "Service"), one("actors.yaml", "Deployment")
        labels = actors["spec"]["template"]["metadata"]["labels"]
        self.assertFalse(service["spec"]["selector"].items() <= labels.items())
        self.assertLessEqual(actors["spec"]["selector"]["matchLabels"].items(), labels.items())

    def test_pods_have_no_more_rights_than_they_need(self):
        for name, kind in ("run.yaml", "Job"), ("actors.yaml", "Deployment"):
            pod = pod_of(one(name, kind))
            with self.subTest(kind=kind):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertFalse(pod["automountServiceAccountToken"])
                self.assertEqual(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
                for container in pod["containers"]:
                    self.assertEqual(container["securityContext"], {
                        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]}})
                    self.assertIn("memory", container["resources"]["limits"])

    def test_the_readiness_probe_looks_for_the_port(self):
        for name, kind in ("run.yaml", "Job"), ("actors.yaml", "Deployment"):
            container = pod_of(one(name, kind))["containers"][0]
            self.assertIn(f":{PORT:04X} [0-9A-F:]+ 0A", container["readinessProbe"]["exec"]["command"])
            self.assertEqual(container["ports"][0]["containerPort"], PORT)

    def test_both_workloads_run_the_same_image_as_the_same_user(self):
        job, actors = pod_of(one("run.yaml", "Job")), pod_of(one("actors.yaml", "Deployment"))
        self.assertEqual(job["securityContext"], actors["securityContext"])  # else the run directory is not readable
        self.assertEqual(job["containers"][0]["image"], actors["containers"][0]["image"])
        self.assertEqual(job["volumes"], actors["volumes"])


if __name__ == "__main__":
    environment = os.environ.pop("TROUPE_TEST_PYTHON", None)
    if environment:  # go on in there
        os.execv(environment, [environment, "-IB", *sys.argv, "--inside"])
    if "--inside" not in sys.argv:
        print("SKIPPED Manifests: no Python environment of the tests (tools/python_env.sh test)")
        sys.exit(77)
    sys.argv.remove("--inside")
    try:
        import kubernetes_validate
        import yaml
    except ModuleNotFoundError as missing:
        print(f"SKIPPED Manifests: {missing}: the Python environment is older than tools/python/test.txt")
        sys.exit(77)
    unittest.main(verbosity=2)
