// Join tokens: the file that a new host is given, and the ids and ledger entries on the chief.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <troupe/tests/fuzz/fuzz.hpp>
#include <troupe/transport/join_token.hpp>

namespace troupe::fuzz {
namespace {

using namespace transport;

const WallTime kNow = std::chrono::system_clock::now();

/// An authority, and a token of it as text.
struct Run {
  Run() {
    const Authority authority = Authority::create("run-1", kNow).value();
    authority.save(folder).value();
    const Identity node{"run-1", {"actor"}, "actor-9"};
    token = ledger.issue(authority, node, {"10.0.0.1", 7600}, kNow, kTokenLifetimeMax).value();
    const std::string file = scratch_folder() + "/token";
    save_join_token(token, file).value();
    std::ifstream stream(file);
    text.assign(std::istreambuf_iterator<char>(stream), {});
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/tokens")) open = entry.path().string();
    std::ifstream ledger_file(open);
    entry.assign(std::istreambuf_iterator<char>(ledger_file), {});
  }
  const std::string folder = scratch_folder() + "/security";
  const SteadyClock clock{};
  TokenLedger ledger{folder, clock};
  JoinToken token;
  std::string text, open, entry;
};

const Run& run() {
  static const Run one;
  return one;
}

void token(std::string_view text) {
  const auto got = parse_join_token(text, "token", kNow);
  if (!got.ok()) return;
  TROUPE_CHECK(got->id.size() == 64 && got->expires > kNow && to_uri(got->node).ok(), "a token that is none");
}

/// Whoever is certified is who the ledger says.
void ledger(Input input) {
  scratch_file("security/tokens/" + std::filesystem::path(run().open).filename().string(), input.part());
  TokenLedger fresh(run().folder, run().clock);  // wrong ids are counted
  const bool right = input.choose(2) == 1;
  const auto node = fresh.redeem(right ? run().token.id : text_of(input.rest()), "bearer", kNow);
  if (node.ok()) TROUPE_CHECK(to_uri(*node).ok(), "a node without a name");
}

void one_input(Bytes input) {
  Input choice(input);
  const std::string& good = run().text;
  switch (choice.choose(3)) {
    case 0:
      return token(text_of(choice.rest()));
    case 1: {  // the middle of a good one replaced
      const std::size_t from = choice.take<std::uint16_t>() % good.size();
      const std::size_t count = choice.take<std::uint16_t>() % (good.size() - from);
      return token(std::string(good).replace(from, count, text_of(choice.rest())));
    }
    default:
      return ledger(choice);
  }
}

std::vector<std::string> seeds() {
  const std::string id = run().token.id;
  return {std::string(1, '\0') + run().text, std::string("\1\0\0\0\0", 5), std::string("\1\x22\0\x04\0node", 9),
          "\2" + part(run().entry) + "\1", "\2" + part(run().entry) + std::string(1, '\0') + id};
}

const Registered registered({"join_token", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
