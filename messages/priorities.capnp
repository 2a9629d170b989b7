# Learner -> replay.
@0xd050272873649678;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Priorities {
  keys @0 :List(UInt64);
  priorities @1 :List(Float64);  # one a key, finite and >= 0
  table @2 :Text;                # empty: there is one
}
