#pragma once
// A role implements this when its checkpoints refer to something that it keeps outside of them. Replay does: its
// checkpoints name rows of its journal.

namespace troupe::actors {

/// Implemented beside Role; called on the role's thread.
class CutListener {
 public:
  virtual ~CutListener() = default;
  /// The checkpoint that the newest save() was for is whole on disk. Some checkpoints are never reported; the next one
  /// that is reported then counts for them too.
  virtual void committed() = 0;
};

}  // namespace troupe::actors
