# Env actor -> replay.
@0xcbe09c92faa58228;

using Cxx = import "/capnp/c++.capnp";
using Tensor = import "tensor.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Trajectory {
  producer @0 :UInt32;           # index of the env actor in its role
  incarnation @1 :UInt32;        # restarts of that actor
  sequence @2 :UInt64;           # counts the producer's trajectories since its (re)start
  parametersVersion @3 :Int64;   # learner step whose parameters chose the last action
  envSteps @4 :Int64;            # environment steps since the producer's previous trajectory
  rows @5 :Int64;
  columns @6 :List(Tensor.Column);
  priorities @7 :List(Float64);  # one a row, finite and >= 0; empty: 1 each

  # Rows whose stacks are split (core/stacks.hpp); empty: whole rows.
  stacks @8 :List(Stack);        # by column, of which `columns` holds places in a pool: int32 [planes]
  planes @9 :List(Data);         # of each pool, of which the stacks' columns begin new ones in their order

  struct Stack {
    column @0 :UInt32;
    spec @1 :Tensor.TensorSpec;  # of the whole column, with the same name
    axis @2 :Int32 = -1;         # the dimension that the planes are parts of; -1: the last one
  }
}
