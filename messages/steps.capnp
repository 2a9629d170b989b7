# Whoever acts -> tables of shared steps (replay/sequence_tables.hpp).
@0xa7c41f0be2d96835;

using Cxx = import "/capnp/c++.capnp";
using Tensor = import "tensor.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Steps {
  writer @0 :UInt64;           # one environment's, for good
  sequence @1 :UInt64;         # counts the writer's messages
  maxSteps @2 :Int64;          # items reach so far back at most; > 0
  rows @3 :Int64;              # time steps, consecutive ones
  columns @4 :List(Tensor.Column);
  items @5 :List(Item);        # in the order in which they are made
  ends @6 :List(Int64);        # rows of this message that came before the end of an episode, ascending
  last @7 :Bool;               # the writer sends no more

  struct Item {
    table @0 :Text;
    end @1 :Int64;             # rows of this message that came before it
    steps @2 :Int64;           # the last so many steps that came before it; > 0
    priority @3 :Float64;      # finite and >= 0
  }
}
