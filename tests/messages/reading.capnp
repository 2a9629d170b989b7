# A message of a user's own, for own_schema_test.cpp.
@0xb2c1d9e0f3a45867;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::testing");

struct Reading {
  celsius @0 :Float64;
  sensor @1 :Text;
  history @2 :List(Float64);
  before @3 :Reading;
}
