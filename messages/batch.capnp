# Replay -> learner; and what a client asks replay for.
@0xbc42df5f37eea8bf;

using Cxx = import "/capnp/c++.capnp";
using Tensor = import "tensor.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Batch {
  sequence @0 :UInt64;               # counts the batches of this replay
  tableItems @1 :Int64;              # items in the table when the batch was drawn
  rows @2 :Int64;
  columns @3 :List(Tensor.Column);
  # One a row:
  keys @4 :List(UInt64);
  probabilities @5 :List(Float64);   # with which the sampler drew the row, in (0, 1]
  priorities @6 :List(Float64);      # finite and >= 0
  timesSampled @7 :List(Int32);      # this draw included
  parametersVersions @8 :List(Int64);  # version that produced the row; -1: not known

  tableMass @9 :Float64;             # what the sampler's weights of all items summed to: probability = weight / mass

  # Of rows that are sequences, whose columns are [longest, ...]: steps of each, zeros behind them. Empty: of others.
  lengths @10 :List(Int32);

  # Of the table when the batch was drawn, since it was made:
  tableBytes @11 :Int64;             # of its items
  tableInserts @12 :Int64;
  tableSamples @13 :Int64;
  tableEvictions @14 :Int64;         # by its remover or by the number of draws
}

struct SampleRequest {
  rows @0 :Int64;       # of the batch, which is the answer; 0: at once, for what it says of the table
  timeoutMs @1 :UInt32; # after which nobody waits for it any more
  table @2 :Text;       # empty: there is one
}
