// `troupe`: trains agents, shows what they do, and explains what can be configured.
#include <troupe/apps/main.hpp>

int main(int argc, char** argv) { return troupe::main(argc, argv, troupe::shipped()); }
