#include <troupe/run/shipped_wrappers.hpp>

#include <cstdint>
#include <string>
#include <utility>

#include <troupe/envs/wrappers/action_repeat.hpp>
#include <troupe/envs/wrappers/crop.hpp>
#include <troupe/envs/wrappers/frame_stack.hpp>
#include <troupe/envs/wrappers/pixels.hpp>
#include <troupe/envs/wrappers/resize.hpp>
#include <troupe/envs/wrappers/reward_scale.hpp>
#include <troupe/envs/wrappers/time_limit.hpp>

namespace troupe {
namespace {

constexpr double kStepsMax = 1e9;
constexpr double kSideMax = 16384;      // pixels
constexpr double kDrawnSideMax = 4096;  // which the renderer allows
constexpr const char* kDmControl = "dm_control";

WrapperKind action_repeat_kind() {
  return {.doc = "Each action for several steps of the environment, whose rewards are added",
          .keys = {{.path = "steps",
                    .default_value = std::int64_t{2},
                    .doc = "Of the environment, that one action is taken for",
                    .unit = "steps",
                    .min = 1,
                    .max = 1000}},
          .make = [](const ConfigSection& keys) { return Result(envs::action_repeat(keys.get_int("steps"))); }};
}

WrapperKind time_limit_kind() {
  return {.doc = "Shorter episodes, whose ends are not the task's",
          .keys = {{.path = "steps",
                    .default_value = std::int64_t{250},
                    .doc = "After which an episode ends, with discount 1",
                    .unit = "steps",
                    .min = 1,
                    .max = kStepsMax}},
          .make = [](const ConfigSection& keys) { return Result(envs::time_limit(keys.get_int("steps"))); }};
}

WrapperKind reward_scale_kind() {
  return {.doc = "Rewards of another size, in training alone",
          .keys = {{.path = "factor",
                    .default_value = 1.0,
                    .doc = "By which rewards are multiplied, in training alone",
                    .min = -1e9,
                    .max = 1e9}},
          .make = [](const ConfigSection& keys) { return Result(envs::reward_scale(keys.get_float("factor"))); },
          .training_only = true};
}

/// Height and width of images, in that order.
ConfigSchema sides(const char* height, const char* width, double least, double most) {
  const auto key = [&](const char* path, const char* doc) {
    return ConfigKey{
        .path = path, .default_value = std::int64_t{84}, .doc = doc, .unit = "pixels", .min = least, .max = most};
  };
  return {key("height", height), key("width", width)};
}

WrapperKind pixels_kind() {
  const envs::PixelsOptions d;
  ConfigSchema keys = sides("Of what each camera sees", "Of what each camera sees", 1, kDrawnSideMax);
  keys.push_back(
      {.path = "cameras", .default_value = d.cameras, .doc = "Names or indices; each is a column of the observation"});
  keys.push_back(
      {.path = "keep_states", .default_value = d.keep_states, .doc = "Whether the environment's other columns stay"});
  keys.push_back({.path = "profile",
                  .default_value = std::string(kDmControl),
                  .doc = "The same bytes as dm_control, or without shadows and many times as fast",
                  .choices = {kDmControl, "fast"}});
  return {.doc = "What cameras see, instead of the environment's observation or beside it",
          .keys = std::move(keys),
          .make = [](const ConfigSection& keys) {
            return Result(
                envs::pixels({.height = static_cast<int>(keys.get_int("height")),
                              .width = static_cast<int>(keys.get_int("width")),
                              .cameras = keys.get_strings("cameras"),
                              .keep_states = keys.get_bool("keep_states"),
                              .profile = keys.get_string("profile") == kDmControl ? envs::RenderProfile::kDmControl
                                                                                  : envs::RenderProfile::kFast}));
          }};
}

WrapperKind frame_stack_kind() {
  return {.doc = "The last images of an episode as one, the oldest first",
          .keys = {{.path = "count",
                    .default_value = std::int64_t{3},
                    .doc = "Images that become one",
                    .unit = "images",
                    .min = 1,
                    .max = 64}},
          .make = [](const ConfigSection& keys) { return Result(envs::frame_stack(keys.get_int("count"))); }};
}

WrapperKind crop_kind() {
  const envs::CropOptions d;
  ConfigSchema keys = sides("Of the part that stays", "Of the part that stays", 1, kSideMax);
  const auto edge = [&](const char* path, std::int64_t otherwise) {
    keys.push_back({.path = path,
                    .default_value = otherwise,
                    .doc = "First of the pixels that stay; -1: they are in the middle",
                    .unit = "pixels",
                    .min = -1,
                    .max = kSideMax});
  };
  edge("top", d.top);
  edge("left", d.left);
  return {.doc = "A part of each image", .keys = std::move(keys), .make = [](const ConfigSection& keys) {
            return Result(envs::crop({.height = keys.get_int("height"),
                                      .width = keys.get_int("width"),
                                      .top = keys.get_int("top"),
                                      .left = keys.get_int("left")}));
          }};
}

WrapperKind resize_kind() {
  return {.doc = "Each image at another size",
          .keys = sides("Of each image then", "Of each image then", 1, kSideMax),
          .make = [](const ConfigSection& keys) {
            return Result(envs::resize(keys.get_int("height"), keys.get_int("width")));
          }};
}

}  // namespace

void add_shipped_wrappers(Registry& registry) {
  registry.wrapper("action_repeat", action_repeat_kind());
  registry.wrapper("crop", crop_kind());
  registry.wrapper("frame_stack", frame_stack_kind());
  registry.wrapper("pixels", pixels_kind());
  registry.wrapper("resize", resize_kind());
  registry.wrapper("reward_scale", reward_scale_kind());
  registry.wrapper("time_limit", time_limit_kind());
}

}  // namespace troupe
