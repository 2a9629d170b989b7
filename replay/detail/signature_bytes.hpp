#pragma once
// A signature as bytes: how images and journals say what their rows are made of.
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/bytes.hpp>

namespace troupe::replay::detail {

void put_signature(ByteWriter& out, const Signature& signature);
/// Bounded by the bytes that are there. Errors: kCorrupt naming the column; running out of bytes shows in `in`.
Result<Signature> get_signature(ByteReader& in);

}  // namespace troupe::replay::detail
