# Learner -> parameter store -> actors and evaluators, with an announcement of each version ahead of the parameters; and
# back from actors to the store, which version they acted with.
@0x9da8896656905005;

using Cxx = import "/capnp/c++.capnp";
using Tensor = import "tensor.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Parameters {
  version @0 :Int64;         # learner step that produced them
  layoutHash @1 :UInt64;     # of names, shapes and offsets
  fingerprint @2 :UInt64;    # of the values, as the learner computes it
  dtype @3 :Tensor.DType;
  data @4 :Data;             # the flat buffer, little endian
}

struct ParametersUse {
  producer @0 :UInt32;       # index of the env actor in its role
  version @1 :Int64;         # that chose the actions
  envSteps @2 :Int64;        # environment steps taken with it since the last such message
}

struct ParametersVersion {
  version @0 :Int64;         # the newest there is; its parameters follow
}
