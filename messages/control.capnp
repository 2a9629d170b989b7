# Supervisor -> roles; consumer -> producer (credit).
@0x896e4c84b8f52c99;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::messages::schema");

struct Control {
  kind @0 :Kind;
  channel @1 :Text;   # credit: which channel
  credits @2 :Int64;  # credit: further frames that the producer may send
  step @3 :Int64;     # checkpoint: learner step of the cut
  reason @4 :Text;    # for people

  enum Kind {
    start @0;
    pause @1;
    resume @2;
    checkpoint @3;
    stop @4;
    credit @5;
  }
}
