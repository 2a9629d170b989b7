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
