#pragma once
// A topology as a picture: the text that Graphviz draws. `troupe graph` makes an SVG of it.
#include <string>

#include <troupe/actors/runtime/topology.hpp>

namespace troupe::actors {

/// A digraph in the DOT language: a box for each role with its count, double-edged for groups of replicas; an arrow for
/// each channel with port, kind and capacity (stream: solid; latest: dashed; request: dotted); a frame around each part
/// of the run. Reports are not drawn, since every role sends them. Names are quoted, so any topology gives valid DOT.
std::string to_dot(const Topology& topology);

}  // namespace troupe::actors
