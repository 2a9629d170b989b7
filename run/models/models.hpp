#pragma once
// The models that ship, on images: a classifier, SN-GAN and ResNet. Each is registered in the same way as a user's own
// (run/registry.hpp); its networks and steps are in algorithms/.
#include <troupe/run/registry.hpp>

namespace troupe::actors {

ModelKind classifier_model();
ModelKind sngan_model();
ModelKind resnet_model();

}  // namespace troupe::actors
