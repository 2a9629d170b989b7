#pragma once
// Roles written in Python: a class of the user's becomes a kind of role of the registry, worth as much as one in C++.
// Each instance has a thread of its own, as Execution::kThread gives it; while Python runs there it holds Python's
// lock, and between two steps it does not.
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include <troupe/run/registry.hpp>

namespace troupe::python {

namespace nb = nanobind;

/// Python's lock for the calling thread, whichever it is: one that holds it already goes on holding it. Another keeps
/// its state in Python as long as it lives, which makes taking the lock some 0.1 us instead of 10.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const bool held_;
};

/// What `work` returns, with Python's lock held. What it throws becomes an error that begins with `what`: an exception
/// of Python with its traceback.
template <typename F>
auto in_python(const std::string& what, F work) -> decltype(work()) {
  const Locked lock;
  try {
    return work();
  } catch (const nb::python_error& raised) {
    return Error{Code::kInternal, what + ": " + raised.what()};
  } catch (const std::exception& thrown) {  // a cast of nanobind's, mostly
    return Error{Code::kInvalidArgument, what + ": " + thrown.what()};
  }
}

/// A key of a configuration as troupe.Key has it: (name, default, doc, unit, least, greatest, choices). With the lock.
ConfigSchema keys_of(nb::handle keys);
/// The values of a section by the names of its keys. With the lock.
nb::dict values_of(const ConfigSection& section, const ConfigSchema& keys);

/// Numbers by their names. With the lock.
void add_scalars(std::vector<Scalar>& to, nb::handle from);

/// What save() gives: integers are counters, arrays tensors; and back. With the lock.
actors::RoleState state_of(nb::handle saved);
nb::dict dict_of(const actors::RoleState& state);

/// An object that threads without Python's lock may drop.
std::shared_ptr<nb::object> shared(nb::object object);

/// The kind of role that a subclass of troupe.Role is. With the lock; throws what its class attributes are wrong about.
RoleKind role_kind(const nb::object& type);

/// Adds the classes that step() is given.
void bind_role(nb::module_& m);

}  // namespace troupe::python
