# Env actor -> inference server, and the answer.
@0x94997740a40197b1;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct InferenceRequest {
  producer @0 :UInt32;                # index of the env actor in its role
  observation @1 :List(Float32);      # one, flat; finite
}

struct InferenceAnswer {
  parametersVersion @0 :Int64;        # that chose the action
  action @1 :List(Float32);           # without exploration noise
}
