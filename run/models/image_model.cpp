#include <troupe/run/models/image_model.hpp>

#include <algorithm>

#include <troupe/run/models/image_keys.hpp>

namespace troupe::actors {

std::function<Result<std::int64_t>()> test_rows(const std::shared_ptr<ImageSource>& images, std::int64_t at_most) {
  return [images, at_most]() -> Result<std::int64_t> {
    TROUPE_ASSIGN(const auto reader, images->reader(data::Split::kTest));
    return std::min(reader->dataset().count(), at_most);
  };
}

ConfigKey ema_key() {
  return {.path = "ema_decay",
          .default_value = 0.0,
          .doc = "Of the average of the parameters that is evaluated; 0: the newest are",
          .min = 0,
          .max = kDecayMax,
          .fixed = ConfigKey::Fixed::kWhetherZero};
}

Result<MakeModel> image_model(
    const ConfigSection& keys, std::vector<std::string> mistakes,
    std::function<void(ReplicaModel&, const std::shared_ptr<ImageSource>&, const ModelContext&)> fill) {
  const ImageDataOptions data = read_images(keys);
  for (std::string& mistake : image_mistakes(data)) mistakes.push_back(std::move(mistake));
  if (!mistakes.empty()) return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
  return MakeModel([data, fill = std::move(fill)](const ModelContext& context) -> Result<ReplicaModel> {
    TROUPE_ASSIGN(const UsableImages images, usable_images(data, context));
    ReplicaModel model;
    model.data_key = data.data_dir.empty() ? "data" : "data_dir";
    fill(model, std::make_shared<ImageSource>(images.options), context);
    if (!images.made) model.make = model.make_evaluation = nullptr;
    return model;
  });
}

}  // namespace troupe::actors
