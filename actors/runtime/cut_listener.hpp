#pragma once
// For a role that keeps things outside of checkpoints which these refer to, as replay does with its journal's rows.

namespace troupe::actors {

/// Implemented beside Role; called on the role's thread.
class CutListener {
 public:
  virtual ~CutListener() = default;
  /// The checkpoint that the newest save() was for is whole on disk. It may not be said of every one: then the next one
  /// of which it is said counts.
  virtual void committed() = 0;
};

}  // namespace troupe::actors
