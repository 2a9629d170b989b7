# Worker -> shard of a parameter server, and what it is answered; parameters travel back as Parameters.
@0xb581e3a753456e83;

using Cxx = import "/capnp/c++.capnp";
using Tensor = import "tensor.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Gradient {
  worker @0 :UInt32;            # index in its role
  version @1 :Int64;            # of the shard's parameters that it was computed at
  samples @2 :Float64;          # rows of the batch: its weight in a mean
  modelHash @3 :UInt64;         # of all groups' names, shapes and offsets
  piece @4 :UInt32;             # which shard's, 0 .. pieces-1
  pieces @5 :UInt32;
  dtype @6 :Tensor.DType;       # float32 or bfloat16
  dense @7 :Data;               # the piece without its sparse tables, little endian
  sparse @8 :List(SparseRows);  # by table, ascending

  struct SparseRows {
    table @0 :UInt32;           # number of the table in the model
    columns @1 :UInt32;         # elements of a row
    rows @2 :List(UInt32);      # of the whole table, ascending; all others are zero
    values @3 :Data;            # rows x columns
  }
}

struct GradientAnswer {
  outcome @0 :Outcome;
  version @1 :Int64;            # of the shard, after it

  enum Outcome {
    applied @0;                 # the parameters have changed
    taken @1;                   # waits for the others of its step
    stale @2;                   # too old: dropped
    unknown @3;                 # of a version that this shard does not know, since it was restarted: dropped
    finished @4;                # the last update was made before: dropped
  }
}

struct ParametersPull {
  worker @0 :UInt32;            # index in its role
  atLeast @1 :Int64;            # the version to wait for
  modelHash @2 :UInt64;
}
