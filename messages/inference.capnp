# Env actor -> inference server, and the answer.
@0x94997740a40197b1;

using Cxx = import "/capnp/c++.capnp";
using Tensor = import "tensor.capnp";
$Cxx.namespace("troupe::messages::schema");

struct InferenceRequest {
  producer @0 :UInt32;                # index of the env actor in its role
  rows @1 :Int64;                     # one for each of its environments
  columns @2 :List(Tensor.Column);    # the policy's inputs; finite
}

struct InferenceAnswer {
  parametersVersion @0 :Int64;        # that gave the rows
  rows @1 :Int64;                     # as many as were asked about
  columns @2 :List(Tensor.Column);    # the policy's outputs, without exploration
}
