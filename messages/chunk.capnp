# Stored in checkpoints, one message a record (detail/chunk_file.hpp).
@0xc1ea782aae8b790c;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Chunk {
  # One piece of a role's state. The role alone knows its format; the checkpoint keeps pieces complete and in order.
  role @0 :Text;
  index @1 :UInt32;
  count @2 :UInt32;  # pieces of this role in this checkpoint
  data @3 :Data;
}

struct Counters {
  # Named integers of the same cut: env steps, learner steps, words of random states.
  counters @0 :List(Counter);

  struct Counter {
    name @0 :Text;
    value @1 :Int64;
  }
}
