#pragma once
// The whole program: train, sweep, compare, node, up, status, stop, token, plan, graph, verify, export, sample, render,
// eval, envs, config, doctor. A user's own main() hands its registry over and is worth as much as `troupe` itself,
// which is the same call with what ships. Nodes of a run must be processes of one program: they find their kinds,
// environments and types by name in its registry.
#include <troupe/run/registry.hpp>

namespace troupe {

/// Runs the command that argv asks for and returns the exit code for main() (apps/commands/commands.hpp). A registry
/// with a mistake is refused first of all, with one line for each. Call it once, from the main thread, before anything
/// else: it opens what standard streams are closed, and ends the process with one message on what nobody has caught.
int main(int argc, char** argv, const Registry& registry);

}  // namespace troupe
