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
  data @4 :Data;             # the flat buffer, or of a piece its ranges, one behind the other; little endian
  unused @5 :UInt64;         # counted publications once
  # The shards of a parameter server each send a piece of the buffer:
  piece @6 :UInt32;          # 0 .. pieces-1
  pieces @7 :UInt32;         # of this version; 0 or 1: data is the whole buffer, and what follows is empty
  elements @8 :Int64;        # of the whole buffer
  ranges @9 :List(Range);    # ascending; the pieces' ranges together cover the buffer exactly once

  struct Range {
    offset @0 :Int64;        # elements
    count @1 :Int64;         # elements, > 0
  }
}

struct ParametersUse {
  producer @0 :UInt32;       # index of the env actor in its role
  version @1 :Int64;         # that chose the actions
  envSteps @2 :Int64;        # environment steps taken with it since the last such message
}

struct ParametersVersion {
  version @0 :Int64;         # the newest there is; its parameters follow
}
