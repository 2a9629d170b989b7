#pragma once
// What travels on channels, as Python has it: Troupe's own messages as the dataclasses of troupe/messages.py, types
// that a program registers as bytes. Both ways copy, so that arrays are the user's and a frame goes back to its pool at
// once.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/messages/frame.hpp>

namespace troupe::python {

namespace nb = nanobind;

/// Who sends, as trajectories say it.
struct Sender {
  std::uint32_t index = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t trajectories = 0;  ///< sent so far
};

/// Whether messages of this type have a form in Python: some of ours have none, since only Troupe's roles speak them.
bool has_form(const std::string& type);

/// Columns by name, [rows, ...] each, copied.
nb::dict dict_of_columns(const BatchView& rows);

/// A message of this type out of its frame. Python's lock is held. Errors: those of the message's read_*().
Result<nb::object> to_python(const messages::Frame& frame, const std::string& type);

/// A frame of this type. Python's lock is held. Throws nb::python_error or nb::cast_error where `message` is another
/// thing. Errors: those of the message's make_*().
Result<messages::Frame> to_frame(nb::handle message, const std::string& type, messages::FramePool& pool,
                                 Sender& sender);

}  // namespace troupe::python
