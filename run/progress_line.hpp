#pragma once
// How far something is that takes long: one line that is rewritten in place on a terminal, or a plain line every 15
// seconds where the output goes to a file. Used by `troupe train` (run/progress.hpp) and `troupe sweep`.
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include <troupe/core/clock.hpp>

namespace troupe::apps {

/// Errors of the stream (closed terminal) are ignored: work goes on without onlookers. Not thread-safe.
class ProgressLine {
 public:
  /// The line, in at most so many columns; parts that do not fit are left out.
  using Text = std::function<std::string(std::size_t columns_max)>;

  /// `columns`: the width of the terminal as it is now; nothing where a line cannot be rewritten. Both borrowed but
  /// `columns`.
  ProgressLine(std::FILE* out, std::function<std::size_t()> columns, const Clock& clock)
      : out_(out), columns_(std::move(columns)), clock_(clock), drawn_at_(clock.now()) {}
  /// For whoever looks at this stream.
  static ProgressLine on(std::FILE* out, const Clock& clock);

  bool is_live() const { return columns_ != nullptr; }
  /// Whether it is time: at most 4 times a second when live, every 15 s when plain.
  bool is_due() const;
  void draw(const Text& text);
  /// Takes a live line away, so that something else can be said in its place.
  void clear();
  /// Ends a live line, so that what is printed next starts on its own.
  void finish();

 private:
  void stand(bool open);

  std::FILE* out_;
  std::function<std::size_t()> columns_;
  const Clock& clock_;
  Duration drawn_at_;  ///< or when it was made
  bool open_ = false;
};

}  // namespace troupe::apps
