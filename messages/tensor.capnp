# Element types and named specs, as in core/tensor.hpp. Evolution rule of all schemas here: fields and enumerants are only
# ever added at the end with the next number; none is removed, renumbered or given another meaning or unit.
@0xdbac283997e66277;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

enum DType {
  float32 @0;
  float64 @1;
  bfloat16 @2;
  int32 @3;
  int64 @4;
  uint8 @5;
}

struct TensorSpec {
  name @0 :Text;
  dtype @1 :DType;
  dims @2 :List(Int64);  # outermost first, row-major; at most 8, none negative
}

struct Column {
  # rows x spec, contiguous, little endian. The writer starts data at a multiple of 64 bytes of the message.
  spec @0 :TensorSpec;
  data @1 :Data;
}
