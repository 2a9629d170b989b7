#Between the chief and the nodes of a run; messages / control.hpp says which kind uses which fields.
@0x896e4c84b8f52c99;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Control {
  kind @0 : UInt16;
  node @1 : Text;
  birth @2 : UInt64;
  protocol @3 : UInt32;
  configHash @4 : UInt64;
  term @5 : UInt64;
  incarnation @6 : UInt32;
  number @7 : UInt64;
  lateMs @8 : UInt32;
  resume @9 : Bool;
  fenced @10 : Bool;
  failed @11 : Bool;
  code @12 : UInt16;
  text @13 : Text;
  texts @14 : List(Text);
  instances @15 : List(Instance);
  edges @16 : List(Edge);
  nodes @17 : List(Node);
  counters @18 : List(Counter);

  struct Instance {
    role @0 : Text;
    index @1 : UInt32;
    incarnation @2 : UInt32;
    number @3 : UInt32;
    done @4 : Bool;
  }

  struct Edge {
    channel @0 : UInt32;
    producer @1 : UInt32;
    consumer @2 : UInt32;
    peerProduces @3 : Bool;
    peerIncarnation @4 : UInt32;
    peerNode @5 : Text;
    peerRole @6 : Text;
  }

  struct Node {
    name @0 : Text;
    incarnation @1 : UInt32;
    host @2 : Text;
    port @3 : UInt16;
    birth @4 : UInt64;
  }

  struct Counter {
    name @0 : Text;
    value @1 : Int64;
  }
}
