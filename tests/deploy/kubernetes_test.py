#!/usr/bin/env python3
"""The manifests of deploy/kubernetes/: against Kubernetes' own schemas (unknown fields are errors), and against each
other where a schema cannot see that two places must agree. Runs in the Python environment of the tests; exit status 77
where that is missing."""

import os
import pathlib
import re
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/kubernetes"
OLDEST, NEWEST = "1.33", "1.37"  # successPolicy is in all of these
PORT = 7600
# What a JobSet has besides its jobs, as far as the manifest uses it (jobset.x-k8s.io/v1alpha2, which is no part of
# Kubernetes and so not among its schemas).
JOBSET = {
    "type": "object", "additionalProperties": False, "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "jobset.x-k8s.io/v1alpha2"},
        "kind": {"const": "JobSet"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object", "additionalProperties": False, "required": ["replicatedJobs"],
            "properties": {
                "network": {"type": "object", "additionalProperties": False,
                            "properties": {"enableDNSHostnames": {"type": "boolean"}, "subdomain": {"type": "string"},
                                           "publishNotReadyAddresses": {"type": "boolean"}}},
                "successPolicy": {"type": "object", "additionalProperties": False, "required": ["operator"],
                                  "properties": {"operator": {"enum": ["All", "Any"]},
                                                 "targetReplicatedJobs": {"type": "array", "items": {"type": "string"}}}},
                "failurePolicy": {"type": "object", "additionalProperties": False,
                                  "properties": {"maxRestarts": {"type": "integer", "minimum": 0}}},
                "replicatedJobs": {"type": "array", "items": {
                    "type": "object", "additionalProperties": False, "required": ["name", "template"],
                    "properties": {"name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
                                   "replicas": {"type": "integer", "minimum": 0},
                                   "template": {"type": "object"}}}}}}}}


def documents(name):
    return [document for document in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")) if document]


def one(name, kind):
    found = [document for document in documents(name) if document["kind"] == kind]
    assert len(found) == 1, f"{name}: {len(found)} of kind {kind}"
    return found[0]


def jobs_of(jobset):
    """The Jobs that its controller makes, by name."""
    return {f"{jobset['metadata']['name']}-{replicated['name']}-{index}":
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, **replicated["template"]}
            for replicated in jobset["spec"]["replicatedJobs"] for index in range(replicated["replicas"])}


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def pods():
    """All that there are, by the workload's name."""
    return [("run", pod_of(one("run.yaml", "Job"))), ("actors", pod_of(one("actors.yaml", "Deployment"))),
            *((name, pod_of(job)) for name, job in jobs_of(one("jobset.yaml", "JobSet")).items())]


class Manifests(unittest.TestCase):
    def test_follow_the_schemas_strictly(self):
        files = sorted(path.name for path in FOLDER.glob("*.yaml"))
        self.assertEqual(files, ["actors.yaml", "jobset.yaml", "run.yaml"])
        for name in "actors.yaml", "run.yaml":
            for document in documents(name):
                for version in OLDEST, NEWEST:
                    with self.subTest(file=name, kind=document["kind"], version=version):
                        kubernetes_validate.validate(document, version, strict=True)

    def test_the_jobset_and_its_jobs_follow_theirs(self):
        jobset = one("jobset.yaml", "JobSet")
        jsonschema.validate(jobset, JOBSET)
        for name, job in jobs_of(jobset).items():
            for version in OLDEST, NEWEST:
                with self.subTest(job=name, version=version):
                    kubernetes_validate.validate(job, version, strict=True)
        jobset["spec"]["sucessPolicy"] = jobset["spec"].pop("successPolicy")
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(jobset, JOBSET)

    def test_the_jobsets_pods_are_listed_as_they_will_be_called(self):
        jobset = one("jobset.yaml", "JobSet")
        pods = [f"{name}-{index}" for name, job in jobs_of(jobset).items() for index in range(job["spec"]["completions"])]
        for job in jobs_of(jobset).values():
            self.assertEqual(job["spec"]["completions"], job["spec"]["parallelism"])
            environment = {v["name"]: v.get("value") for v in pod_of(job)["containers"][0]["env"]}
            self.assertEqual(environment["TROUPE_SERVICE"], jobset["spec"]["network"]["subdomain"])
            chief, actors = environment["TROUPE_PODS"].split(",")
            prefix, last = re.fullmatch(r"(.*)\[0-(\d+)\]", actors).groups()
            self.assertEqual(pods, [chief, *(f"{prefix}{index}" for index in range(int(last) + 1))])
        self.assertEqual(jobset["spec"]["successPolicy"]["targetReplicatedJobs"], ["gpu"])
        self.assertTrue(pods[0].startswith("cartpole-gpu-"))

    def test_only_the_learner_of_the_jobset_has_a_gpu(self):
        for name, job in jobs_of(one("jobset.yaml", "JobSet")).items():
            gpus = pod_of(job)["containers"][0]["resources"]["limits"].get("nvidia.com/gpu")
            self.assertEqual(gpus, "1" if name == "cartpole-gpu-0" else None)
            self.assertIn("--set=learner.device=cuda:0", pod_of(job)["containers"][0]["args"])

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
        for name, pod in pods():
            with self.subTest(pod=name):
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertFalse(pod["automountServiceAccountToken"])
                self.assertEqual(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault")
                for container in pod["containers"]:
                    self.assertEqual(container["securityContext"], {
                        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]}})
                    self.assertIn("memory", container["resources"]["limits"])

    def test_the_readiness_probe_looks_for_the_port(self):
        for _, pod in pods():
            container = pod["containers"][0]
            self.assertIn(f":{PORT:04X} [0-9A-F:]+ 0A", container["readinessProbe"]["exec"]["command"])
            self.assertEqual(container["ports"][0]["containerPort"], PORT)

    def test_all_workloads_run_the_same_image_as_the_same_user(self):
        (_, job), *others = pods()
        for name, pod in others:
            with self.subTest(pod=name):
                self.assertEqual(job["securityContext"], pod["securityContext"])  # else the run directory is not readable
                self.assertEqual(job["containers"][0]["image"], pod["containers"][0]["image"])
                self.assertEqual(job["volumes"], pod["volumes"])


if __name__ == "__main__":
    environment = os.environ.pop("TROUPE_TEST_PYTHON", None)
    if environment:  # go on in there
        os.execv(environment, [environment, "-IB", *sys.argv, "--inside"])
    if "--inside" not in sys.argv:
        print("SKIPPED Manifests: no Python environment of the tests (tools/python_env.sh test)")
        sys.exit(77)
    sys.argv.remove("--inside")
    try:
        import jsonschema
        import kubernetes_validate
        import yaml
    except ModuleNotFoundError as missing:
        print(f"SKIPPED Manifests: {missing}: the Python environment is older than tools/python/test.txt")
        sys.exit(77)
    unittest.main(verbosity=2)
