# Learner, or a program outside of the run -> replay.
@0xd050272873649678;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Priorities {
  keys @0 :List(UInt64);
  priorities @1 :List(Float64);  # one a key, finite and >= 0
  table @2 :Text;                # empty: there is one
  deletes @3 :List(UInt64);      # items that leave, once priorities are set
  reset @4 :Bool;                # then every item leaves, and limiter and counters begin anew
}
