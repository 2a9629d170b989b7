# The root of every frame: which message it is. The numbers of the variants are those of messages::Kind.
@0xf4609917576841cd;

using Cxx = import "/capnp/c++.capnp";
using Trajectory = import "trajectory.capnp";
using Batch = import "batch.capnp";
using Parameters = import "parameters.capnp";
using Priorities = import "priorities.capnp";
using Metrics = import "metrics.capnp";
using Control = import "control.capnp";
using Chunk = import "chunk.capnp";
using Inference = import "inference.capnp";
using Gradient = import "gradient.capnp";
using Steps = import "steps.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Envelope {
  union {
    trajectory @0 :Trajectory.Trajectory;
    batch @1 :Batch.Batch;
    parameters @2 :Parameters.Parameters;
    priorities @3 :Priorities.Priorities;
    episode @4 :Metrics.Episode;
    metrics @5 :Metrics.Metrics;
    control @6 :Control.Control;
    chunk @7 :Chunk.Chunk;
    counters @8 :Chunk.Counters;
    parametersUse @9 :Parameters.ParametersUse;
    parametersVersion @10 :Parameters.ParametersVersion;
    inferenceRequest @11 :Inference.InferenceRequest;
    inferenceAnswer @12 :Inference.InferenceAnswer;
    gradient @13 :Gradient.Gradient;
    gradientAnswer @14 :Gradient.GradientAnswer;
    parametersPull @15 :Gradient.ParametersPull;
    stepsRequest @16 :Metrics.StepsRequest;
    stepsGrant @17 :Metrics.StepsGrant;
    evaluation @18 :Metrics.Evaluation;
    sampleRequest @19 :Batch.SampleRequest;
    steps @20 :Steps.Steps;
  }
}
