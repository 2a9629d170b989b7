# Everyone -> metrics.
@0xd31512fd4a2a4901;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Episode {
  role @0 :Text;                # who played it
  producer @1 :UInt32;          # its index in the role
  episodeReturn @2 :Float64;    # undiscounted
  steps @3 :Int64;              # control steps
  parametersVersion @4 :Int64;  # at the last action
}

# Evaluator -> metrics: what it has found about one version of the parameters.
struct Evaluation {
  source @0 :Text;              # role of the evaluator
  version @1 :Int64;            # of the parameters
  values @2 :List(Metrics.Scalar);
}

# Env actor -> metrics, which keeps the account of the run's env steps, and the answer.
struct StepsRequest {
  producer @0 :UInt32;          # index of the env actor in its role
  taken @1 :Int64;              # env steps of all its incarnations, as far as it knows
  allowed @2 :Int64;            # how many it may take in all, as it was told last
  wanted @3 :Int64;             # how many more than `taken` it asks for
}

struct StepsGrant {
  taken @0 :Int64;              # as far as the account knows: a restarted env actor goes on from there
  allowed @1 :Int64;            # in all, of this env actor
  over @2 :Bool;                # the run has had all its env steps
}

struct Metrics {
  wallSeconds @0 :Float64;      # since the start of the run, by the run's clock
  envSteps @1 :Int64;           # over all env actors, since the first start of the run
  learnerSteps @2 :Int64;
  scalars @3 :List(Scalar);

  struct Scalar {
    name @0 :Text;              # role first: "learner/critic_loss"
    value @1 :Float64;          # may be NaN or infinite: a diverged loss must be seen
  }
}
