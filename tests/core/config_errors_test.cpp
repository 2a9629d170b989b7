// A table of bad configurations with the exact message of each: what a user sees is part of the interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <troupe/core/config.hpp>

namespace troupe {
namespace {

ConfigSchema schema() {
  return {
      {.path = "env", .default_value = std::string("cartpole"), .doc = "The environment"},
      {.path = "seed", .default_value = std::int64_t{1}, .doc = "Seed", .min = 0},
      {.path = "deterministic", .default_value = false, .doc = "One thread"},
      {.path = "discount", .default_value = 0.99, .doc = "Gamma", .min = 0, .max = 1},
      {.path = "learner.batch_size", .default_value = std::int64_t{256}, .doc = "Batch", .min = 1, .max = 4096},
      {.path = "learner.rate", .default_value = 1e-4, .doc = "Rate", .min = 0},
      {.path = "learner.layers", .default_value = std::vector<std::int64_t>{256}, .doc = "Layers", .min = 1, .max = 99},
      {.path = "learner.betas", .default_value = std::vector<double>{0.9}, .doc = "Betas", .max = 1},
      {.path = "learner.compute",
       .default_value = std::string("fp32"),
       .doc = "Arithmetic",
       .choices = {"fp32", "bf16"}},
      {.path = "replay.sampler",
       .default_value = std::string("uniform"),
       .doc = "Selector",
       .choices = {"uniform", "prioritized"}},
  };
}

struct Case {
  std::string text;
  std::string message;
};

std::string message_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_config(text, "f", overrides, schema());
  return config.ok() ? "loaded" : config.error().message;
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) EXPECT_EQ(message_of(c.text), c.message) << "--- text:\n" << c.text;
}

TEST(ConfigErrors, UnknownKeysGetTheNearestKnownOne) {
  check({
      {"learner.batchsize = 1", "f:1: unknown key learner.batchsize (did you mean learner.batch_size?)"},
      {"[learner]\nbatchsize = 1", "f:2: unknown key learner.batchsize (did you mean learner.batch_size?)"},
      {"[learner]\nbatch-size = 1", "f:2: unknown key learner.batch-size (did you mean learner.batch_size?)"},
      {"[learner]\nBatch_Size = 1", "f:2: unknown key learner.Batch_Size (did you mean learner.batch_size?)"},
      {"[learner]\nlayer = [1]", "f:2: unknown key learner.layer (did you mean learner.layers?)"},
      {"[learner]\nbeats = [1]", "f:2: unknown key learner.beats (did you mean learner.betas?)"},
      {"[learner]\ncomptue = 'fp32'", "f:2: unknown key learner.comptue (did you mean learner.compute?)"},
      {"[lerner]\nrate = 1", "f:2: unknown key lerner.rate (did you mean learner.rate?)"},
      {"[learners]\nrate = 1\nbatch_size = 2",
       "f:2: unknown key learners.rate (did you mean learner.rate?)\n"
       "f:3: unknown key learners.batch_size (did you mean learner.batch_size?)"},
      {"[replay]\nsamplr = 'uniform'", "f:2: unknown key replay.samplr (did you mean replay.sampler?)"},
      {"sede = 1", "f:1: unknown key sede (did you mean seed?)"},
      {"enviro = 'a'", "f:1: unknown key enviro (did you mean env?)"},
      {"discout = 1", "f:1: unknown key discout (did you mean discount?)"},
      {"zzz = 1", "f:1: unknown key zzz"},
      {"[zzz]", "f:1: unknown key zzz"},
      {"[a.b.c.d]\ne = 1", "f:2: unknown key a.b.c.d.e"},
      {"a.b.c = {d = 1}", "f:1: unknown key a.b.c.d"},
      {"'' = 1", "f:1: unknown key "},
      {"'seed ' = 1", "f:1: unknown key seed  (did you mean seed?)"},
      {"\"\\u001b[31m\" = 1", "f:1: unknown key \\x1b[31m"},
      {"\"a\\nb\" = 1", "f:1: unknown key a\\nb"},
      {"[seed]\nx = 1", "f:1: seed: wrong type: got a table, expected an integer"},
      {"seed.x = 1", "f:1: seed: wrong type: got a table, expected an integer"},
      {"learner.rate.x = 1", "f:1: learner.rate: wrong type: got a table, expected a number"},
      {"learner = 3", "f:1: learner is a section: got an integer, expected [learner]"},
      {"learner = []", "f:1: learner is a section: got a list, expected [learner]"},
      {"[[learner]]\nrate = 1", "f:1: learner is a section: got a list, expected [learner]"},
      {"replay = 'uniform'", "f:1: replay is a section: got a string, expected [replay]"},
      {"[[zzz]]\na = 1", "f:1: unknown key zzz"},
      {"batch_size = 3", "f:1: unknown key batch_size"},
  });
}

TEST(ConfigErrors, WrongTypesSayWhatWasExpected) {
  check({
      {"seed = 1.0", "f:1: seed: wrong type: got a number, expected an integer"},
      {"seed = 1e6", "f:1: seed: wrong type: got a number, expected an integer"},
      {"seed = '1'", "f:1: seed: wrong type: got a string, expected an integer"},
      {"seed = true", "f:1: seed: wrong type: got a boolean, expected an integer"},
      {"seed = [1]", "f:1: seed: wrong type: got a list, expected an integer"},
      {"seed = {}", "f:1: seed: wrong type: got a table, expected an integer"},
      {"seed = 1979-05-27", "f:1: seed: wrong type: got a date or time, expected an integer"},
      {"seed = 07:32:00", "f:1: seed: wrong type: got a date or time, expected an integer"},
      {"seed = 1979-05-27T07:32:00Z", "f:1: seed: wrong type: got a date or time, expected an integer"},
      {"env = 1", "f:1: env: wrong type: got an integer, expected a string"},
      {"env = false", "f:1: env: wrong type: got a boolean, expected a string"},
      {"env = ['a']", "f:1: env: wrong type: got a list, expected a string"},
      {"deterministic = 1", "f:1: deterministic: wrong type: got an integer, expected a boolean"},
      {"deterministic = 'true'", "f:1: deterministic: wrong type: got a string, expected a boolean"},
      {"discount = '0.9'", "f:1: discount: wrong type: got a string, expected a number"},
      {"discount = true", "f:1: discount: wrong type: got a boolean, expected a number"},
      {"discount = [0.9]", "f:1: discount: wrong type: got a list, expected a number"},
      {"[learner]\nlayers = 256", "f:2: learner.layers: wrong type: got an integer, expected a list of integers"},
      {"[learner]\nlayers = '256'", "f:2: learner.layers: wrong type: got a string, expected a list of integers"},
      {"[learner]\nlayers = [2.5]", "f:2: learner.layers: wrong type: got a number, expected a list of integers"},
      {"[learner]\nlayers = [1, 'a']", "f:2: learner.layers: wrong type: got a string, expected a list of integers"},
      {"[learner]\nlayers = [[1]]", "f:2: learner.layers: wrong type: got a list, expected a list of integers"},
      {"[learner]\nlayers = {}", "f:2: learner.layers: wrong type: got a table, expected a list of integers"},
      {"[learner]\nlayers = true", "f:2: learner.layers: wrong type: got a boolean, expected a list of integers"},
      {"[learner]\nbetas = 0.9", "f:2: learner.betas: wrong type: got a number, expected a list of numbers"},
      {"[learner]\nbetas = [true]", "f:2: learner.betas: wrong type: got a boolean, expected a list of numbers"},
      {"[learner]\ncompute = 32", "f:2: learner.compute: wrong type: got an integer, expected a string"},
      {"[replay]\nsampler = ['uniform']", "f:2: replay.sampler: wrong type: got a list, expected a string"},
  });
}

TEST(ConfigErrors, ValuesOutOfRangeSayTheRange) {
  check({
      {"seed = -1", "f:1: seed: out of range: got -1, expected >= 0"},
      {"seed = -9223372036854775808", "f:1: seed: out of range: got -9223372036854775808, expected >= 0"},
      {"discount = 1.5", "f:1: discount: out of range: got 1.5, expected 0 .. 1"},
      {"discount = -1", "f:1: discount: out of range: got -1, expected 0 .. 1"},
      {"discount = nan", "f:1: discount: out of range: got nan, expected a finite number"},
      {"discount = -nan", "f:1: discount: out of range: got nan, expected a finite number"},
      {"discount = inf", "f:1: discount: out of range: got inf, expected a finite number"},
      {"discount = -inf", "f:1: discount: out of range: got -inf, expected a finite number"},
      {"[learner]\nbatch_size = 0", "f:2: learner.batch_size: out of range: got 0, expected 1 .. 4096"},
      {"[learner]\nbatch_size = 4097", "f:2: learner.batch_size: out of range: got 4097, expected 1 .. 4096"},
      {"[learner]\nrate = -1e-9", "f:2: learner.rate: out of range: got -1e-09, expected >= 0"},
      {"[learner]\nrate = inf", "f:2: learner.rate: out of range: got inf, expected a finite number"},
      {"[learner]\nlayers = []", "f:2: learner.layers: wrong length: got 0 elements, expected 1 .. 64"},
      {"[learner]\nlayers = [256, 0]", "f:2: learner.layers: out of range: got 256, expected 1 .. 99"},
      {"[learner]\nlayers = [1, 0]", "f:2: learner.layers: out of range: got 0, expected 1 .. 99"},
      {"[learner]\nbetas = [2]", "f:2: learner.betas: out of range: got 2, expected <= 1"},
      {"[learner]\nbetas = [0.5, nan]", "f:2: learner.betas: out of range: got nan, expected a finite number"},
      {"[learner]\ncompute = 'fp23'",
       "f:2: learner.compute: unknown value \"fp23\" (did you mean \"fp32\"?), expected one of fp32, bf16"},
      {"[learner]\ncompute = 'int4'", "f:2: learner.compute: unknown value \"int4\", expected one of fp32, bf16"},
      {"[learner]\ncompute = ''", "f:2: learner.compute: unknown value \"\", expected one of fp32, bf16"},
      {"[replay]\nsampler = 'prioritised'",
       "f:2: replay.sampler: unknown value \"prioritised\" (did you mean \"prioritized\"?), expected one of uniform, "
       "prioritized"},
      {"[replay]\nsampler = 'Uniform'",
       "f:2: replay.sampler: unknown value \"Uniform\" (did you mean \"uniform\"?), expected one of uniform, "
       "prioritized"},
      {"env = \"a\\nb\"", "f:1: env: control character in \"a\\nb\""},
      {"env = \"\\u001b[2J\"", "f:1: env: control character in \"\\x1b[2J\""},
      {"env = '" + std::string(257, 'x') + "'", "f:1: env: string too long: got 257 bytes, expected at most 256"},
  });
  std::string layers = "[learner]\nlayers = [";
  for (int i = 0; i < 65; ++i) layers += "1,";
  EXPECT_EQ(message_of(layers + "]"), "f:2: learner.layers: wrong length: got 65 elements, expected 1 .. 64");
}

TEST(ConfigErrors, SyntaxErrorsSayTheLine) {
  check({
      {"seed", "f:1: syntax error: Error while parsing key-value pair: encountered end-of-file"},
      {"seed =", "f:1: syntax error: Error while parsing key-value pair: encountered end-of-file"},
      {"seed = 1 2",
       "f:1: syntax error: Error while parsing key-value pair: expected a comment or whitespace, saw '2'"},
      {"= 1",
       "f:1: syntax error: Error while parsing root table: expected keys, tables, whitespace or comments, saw '='"},
      {"seed = 1\nseed = 2",
       "f:2: syntax error: Error while parsing key-value pair: cannot redefine existing integer 'seed'"},
      {"[learner]\nrate = 1\n[learner]\nlayers = [1]",
       "f:3: syntax error: Error while parsing table header: cannot redefine existing table 'learner'"},
      {"learner.rate = 1\n[learner]\nlayers = [1]",
       "f:2: syntax error: Error while parsing table header: cannot redefine existing table 'learner'"},
      {"[learner", "f:1: syntax error: Error while parsing table header: encountered end-of-file"},
      {"[]",
       "f:1: syntax error: Error while parsing table header: tables with blank bare keys are explicitly prohibited"},
      {"[learner]]", "f:1: syntax error: Error while parsing table header: expected a comment or whitespace, saw ']'"},
      {"env = \"a", "f:1: syntax error: Error while parsing string: encountered end-of-file"},
      {"env = 'a\n'",
       "f:1: syntax error: Error while parsing literal string: control characters other than TAB (U+0009) are "
       "explicitly prohibited"},
      {"env = \"\\q\"", "f:1: syntax error: Error while parsing string: unknown escape sequence '\\q'"},
      {"env = \"\\ud800\"",
       "f:1: syntax error: Error while parsing unicode scalar sequence: unicode surrogates (U+D800 - U+DFFF) are "
       "explicitly prohibited"},
      {"env = a", "f:1: syntax error: Error while parsing value: could not determine value type"},
      {"seed = 99999999999999999999",
       "f:1: syntax error: Error while parsing decimal integer: '99999999999999999999' is not representable in 64 "
       "bits"},
      {"seed = 0x", "f:1: syntax error: Error while parsing hexadecimal integer: encountered end-of-file"},
      {"seed = 01", "f:1: syntax error: Error while parsing decimal integer: leading zeroes are prohibited"},
      {"seed = 1__0", "f:1: syntax error: Error while parsing decimal integer: underscores may only follow digits"},
      {"discount = 1e400",
       "f:1: syntax error: Error while parsing floating-point: '1e400' could not be interpreted as a value"},
      {"discount = .5", "f:1: syntax error: Error while parsing floating-point: expected decimal digit, saw '.'"},
      {"discount = 5.", "f:1: syntax error: Error while parsing floating-point: encountered end-of-file"},
      {"[learner]\nlayers = [1, 2", "f:2: syntax error: Error while parsing array: encountered end-of-file"},
      {"[learner]\nlayers = [1,, 2]",
       "f:2: syntax error: Error while parsing array: expected value or closing ']', saw comma"},
      {"learner = {rate = 1", "f:1: syntax error: Error while parsing inline table: encountered end-of-file"},
      {"deterministic = yes", "f:1: syntax error: Error while parsing value: could not determine value type"},
      {"deterministic = True", "f:1: syntax error: Error while parsing boolean: expected 'true', saw 'T'"},
      {"env = \"\xff\"", "f:1: syntax error: Encountered invalid utf-8 sequence"},
      {"# comment \xC0\x80\nseed = 1", "f:1: syntax error: Encountered invalid utf-8 sequence"},
      {std::string("env = \"a\0b\"", 11),
       "f:1: syntax error: Error while parsing string: unescaped control characters other than TAB (U+0009) are "
       "explicitly prohibited"},
      {"env = \"tab\x01\"",
       "f:1: syntax error: Error while parsing string: unescaped control characters other than TAB (U+0009) are "
       "explicitly prohibited"},
      {"\n\n\n{",
       "f:4: syntax error: Error while parsing root table: expected keys, tables, whitespace or comments, saw '{'"},
  });
  EXPECT_EQ(message_of("# " + std::string(5000, 'x')), "f:1: line too long: got 5002 bytes, expected at most 4096");
  std::string deep = "a";  // would nest half a million tables
  for (int i = 0; i < 500'000; ++i) deep += ".a";
  EXPECT_EQ(message_of("seed = 1\n" + deep + " = 1"), "f:2: line too long: got 1000005 bytes, expected at most 4096");
}

TEST(ConfigErrors, NestingBeyondAnyFileOfOursIsRefused) {
  const auto repeated = [](std::string_view text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string refused = ": nested by more than 64 levels";
  const std::string name = repeated("a.", 200) + "a";
  EXPECT_EQ(message_of("\n[" + name + "]"), "f:2" + refused);
  EXPECT_EQ(message_of(name + " = 1"), "f:1" + refused);
  EXPECT_EQ(message_of("a = " + repeated("[", 200)), "f:1" + refused);
  EXPECT_EQ(message_of("a = " + repeated("{ a = ", 200)), "f:1" + refused);
  // Each line within its limit, and each table in a list: half a million levels overflowed the stack.
  EXPECT_EQ(message_of("a = [" + repeated("{" + repeated("a.", 2000) + "a=[\n", 250)), "f:1" + refused);
  EXPECT_EQ(message_of("x = '''\n[[[[\n'''\n" + name + " = 1"), "f:4" + refused) << "lines of strings count";
  EXPECT_EQ(message_of("x = \"\"\"\n\"\"\"\"\"\n" + name + " = 1"), "f:3" + refused) << "its last two quotes are text";
  // What only looks like it: strings, comments, and many things beside each other.
  const std::string brackets = repeated("[{.", 200);
  for (const std::string& text :
       {"# " + brackets, "env = \"" + brackets + "\\\"" + brackets + "\"", "env = '" + brackets + "\\'",
        "env = \"\"\"" + brackets + "\"\n" + brackets + "\"\"\"\"\"", "env = '''" + brackets + "'\n" + brackets + "'''",
        "a = [" + repeated("1.5, ", 200) + "]", repeated("[[x]]\ny = [[1.5]]\nz = {a.b = 1}\n", 100)}) {
    EXPECT_EQ(message_of(text).find(refused), std::string::npos) << text;
  }
}

TEST(ConfigErrors, OverridesNameTheOption) {
  const auto override_message = [](const std::string& text) { return message_of("", {text}); };
  const std::vector<Case> cases = {
      {"", "--set : expected KEY=VALUE"},
      {"seed", "--set seed: expected KEY=VALUE"},
      {"=1", "--set =1: expected KEY=VALUE"},
      {"sede=1", "--set sede=1: unknown key sede (did you mean seed?)"},
      {"learner.batchsize=1",
       "--set learner.batchsize=1: unknown key learner.batchsize (did you mean learner.batch_size?)"},
      {"learner=1", "--set learner=1: unknown key learner (did you mean learner.rate?)"},
      {"seed=", "--set seed=: wrong type: got nothing, expected an integer"},
      {"seed=one", "--set seed=one: wrong type: got one, expected an integer"},
      {"seed=1.5", "--set seed=1.5: wrong type: got a number, expected an integer"},
      {"seed=1 # x", "loaded"},
      {"seed=1\nenv='b'", "--set seed=1\\nenv='b': wrong type: got 1\\nenv='b', expected an integer"},
      {"seed=-1", "--set seed=-1: out of range: got -1, expected >= 0"},
      {"deterministic=yes", "--set deterministic=yes: wrong type: got yes, expected a boolean"},
      {"learner.layers=256", "--set learner.layers=256: wrong type: got an integer, expected a list of integers"},
      {"learner.layers=[256", "--set learner.layers=[256: wrong type: got [256, expected a list of integers"},
      {"learner.compute=fp16", "--set learner.compute=fp16: unknown value \"fp16\", expected one of fp32, bf16"},
      {"learner.compute=\"fp", "--set learner.compute=\"fp: wrong type: got \"fp, expected a string"},
      {"env=\x1b[31m", "--set env=\\x1b[31m: control character in \"\\x1b[31m\""},
      {"env=\xff", "--set env=\\xff: control character in \"\\xff\""},
  };
  for (const Case& c : cases) EXPECT_EQ(override_message(c.text), c.message);
}

TEST(ConfigErrors, AllMistakesAreReportedAtOnceInTheOrderOfTheFile) {
  EXPECT_EQ(message_of("seed = -1\nzzz = 1\n[replay]\nsampler = 3\n[learner]\nrate = 'fast'\nbatchsize = 3\n",
                       {"sede=1", "discount=2"}),
            "f:1: seed: out of range: got -1, expected >= 0\n"
            "f:2: unknown key zzz\n"
            "f:4: replay.sampler: wrong type: got an integer, expected a string\n"
            "f:6: learner.rate: wrong type: got a string, expected a number\n"
            "f:7: unknown key learner.batchsize (did you mean learner.batch_size?)\n"
            "--set sede=1: unknown key sede (did you mean seed?)\n"
            "--set discount=2: out of range: got 2, expected 0 .. 1");
}

TEST(ConfigErrors, AnOverrideDoesNotHideAMistakeInTheFile) {
  EXPECT_EQ(message_of("seed = -1", {"seed=1"}), "f:1: seed: out of range: got -1, expected >= 0");
}

/// Sections of which there may be any number.
std::string pattern_message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const ConfigSchema patterns = {
      {.path = "seed", .default_value = std::int64_t{1}, .doc = "Seed"},
      {.path = "groups.*.model", .default_value = std::string(), .doc = "What", .choices = {"mlp"}, .required = true},
      {.path = "groups.*.steps", .default_value = std::int64_t{5}, .doc = "Length", .min = 1},
  };
  const Result<Config> config = parse_config(text, "f", overrides, patterns);
  return config.ok() ? "loaded" : config.error().message;
}

TEST(ConfigErrors, InSectionsOfAPatternAreFoundAsElsewhere) {
  const std::string good = "[groups.a]\nmodel = 'mlp'\n";
  EXPECT_EQ(pattern_message(good), "loaded");
  EXPECT_EQ(pattern_message(good + "stesp = 1"), "f:3: unknown key groups.a.stesp (did you mean groups.a.steps?)");
  EXPECT_EQ(pattern_message(good + "steps = 0"), "f:3: groups.a.steps: out of range: got 0, expected >= 1");
  EXPECT_EQ(pattern_message("[groups.a]\nsteps = 2"), "f:1: missing key groups.a.model: What");
  EXPECT_EQ(pattern_message("[groups.a]\nmodel = 'mpl'"),
            "f:2: groups.a.model: unknown value \"mpl\" (did you mean \"mlp\"?), expected one of mlp");
  EXPECT_EQ(pattern_message("[group.a]\nsteps = 2"), "f:2: unknown key group.a.steps (did you mean groups.a.steps?)");
  EXPECT_EQ(pattern_message("[groups]\nsteps = 2"), "f:2: unknown key groups.steps");
  EXPECT_EQ(pattern_message("groups = 2"), "f:1: groups is a section: got an integer, expected [groups]");
  EXPECT_EQ(pattern_message("[groups.'A b']\nsteps = 2"),
            "f:1: [groups.A b]: expected a name of 1 .. 32 lower-case letters, digits, '-' and '_', a letter first");
  EXPECT_EQ(pattern_message(good, {"groups.b.steps=1"}),
            "--set groups.b.steps=1: unknown key groups.b.steps (did you mean groups.a.steps?)");
  std::string many;
  for (std::size_t i = 0; i <= kConfigSectionsMax; ++i) many += "[groups.a" + std::to_string(i) + "]\nmodel = 'mlp'\n";
  EXPECT_EQ(pattern_message(many), "f:19: [groups.a9]: more than 32 sections of this kind");
}

TEST(ConfigErrors, ListsTheFirstMistakesAndCountsTheOthers) {
  const auto many = [](std::size_t count) {
    std::string text = "seed = -1\n";
    for (std::size_t i = 1; i < count; ++i) text += "unheard_of_" + std::to_string(i) + " = 1\n";
    return message_of(text);
  };
  const auto lines_of = [](const std::string& message) { return std::ranges::count(message, '\n') + 1; };
  EXPECT_EQ(lines_of(many(20)), 20);
  EXPECT_EQ(many(20).find("more"), std::string::npos);
  EXPECT_EQ(lines_of(many(21)), 21);
  EXPECT_TRUE(many(21).ends_with("\nf: ... and 1 more mistake")) << many(21);
  const std::string most = many(90'000);  // within the bytes of a file, and within a second
  EXPECT_EQ(lines_of(most), 21);
  EXPECT_TRUE(most.starts_with("f:1: seed: out of range: got -1, expected >= 0\nf:2: unknown key unheard_of_1\n"));
  EXPECT_TRUE(most.ends_with("\nf: ... and 89980 more mistakes"));
  EXPECT_EQ(lines_of(message_of("", std::vector<std::string>(100, "what=1"))), 21);
}

TEST(ConfigErrors, ShowNoControlCharactersOfKeys) {
  for (const std::string text : {"\"a\\u001b[31m\" = 1\n", "[\"a\\u001b[31m\"]\nx = 1\n",
                                 "\"a\\u001b[31m\" = 1\n\"a\\u001b[31m\" = 2\n", "\"\\u001b\".\"\\u0007\" = 1\n"}) {
    const std::string message = message_of(text);
    EXPECT_EQ(std::ranges::count_if(message, [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n'; }),
              0)
        << message;
  }
}

TEST(ConfigErrors, NameAKeyThatComesTwiceAsItIsWritten) {
  EXPECT_EQ(message_of("\"a b\" = 1\n\"a b\" = 2\n"),
            "f:2: syntax error: Error while parsing key-value pair: cannot redefine existing integer '\"a b\"'");
  EXPECT_EQ(
      message_of("'learner'.rate = 1\n\"learner\".rate = 2\n"),
      "f:2: syntax error: Error while parsing key-value pair: cannot redefine existing integer '\"learner\".rate'");
  EXPECT_EQ(message_of("[\"a b\"]\n[\"a b\"]\n"),
            "f:2: syntax error: Error while parsing table header: cannot redefine existing table '\"a b\"'");
}

// Sections whose keys follow from one of them, sections that follow others, and lists of sections.

ConfigSchema own_schema() {
  ConfigSchema schema = {{.path = "roles.*.kind",
                          .default_value = std::string(),
                          .doc = "What",
                          .choices = {"display", "thermometer"},
                          .required = true},
                         {.path = "roles.*.count", .default_value = std::int64_t{1}, .doc = "How many", .min = 1}};
  schema.push_back({.path = "roles.*.period_s", .default_value = 1.0, .doc = "Between two", .min = 0});
  schema.back().only_with = ConfigKey::OnlyWith{"kind", "thermometer"};
  schema.push_back({.path = "roles.*.title", .default_value = std::string("t"), .doc = "Above it"});
  schema.back().only_with = ConfigKey::OnlyWith{"kind", "display"};
  schema.push_back({.path = "placement.actors.nodes", .default_value = std::int64_t{1}, .doc = "Of ours"});
  schema.push_back({.path = "placement.*.nodes",
                    .default_value = std::int64_t{2},
                    .doc = "Processes",
                    .min = 0,
                    .names_from = "roles"});
  schema.push_back({.path = "channels[].from", .default_value = std::string(), .doc = "Begin", .required = true});
  schema.push_back({.path = "channels[].capacity", .default_value = std::int64_t{4}, .doc = "Room", .min = 1});
  return schema;
}

std::string own_message(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const auto config = parse_config(text, "f", overrides, own_schema());
  return config.ok() ? "ok" : config.error().message;
}

TEST(ConfigErrors, OfSectionsWhoseKeysFollowFromTheirKind) {
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometer'\nperiod_s = 2"), "ok");
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometr'\ncount = 2"),
            "f:2: roles.t.kind: unknown value \"thermometr\" (did you mean \"thermometer\"?), expected one of display, "
            "thermometer");
  EXPECT_EQ(own_message("[roles.t]\ncount = 2"), "f:1: missing key roles.t.kind: What");
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometer'\ntitle = 'x'"),
            "f:3: unknown key roles.t.title: its section has it only with kind = \"display\"");
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometer'\nperiod = 1"),
            "f:3: unknown key roles.t.period (did you mean roles.t.period_s?)");
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometer'\nperiod_s = -1"),
            "f:3: roles.t.period_s: out of range: got -1, expected >= 0");
  EXPECT_EQ(own_message("[roles.t]\nkind = 3"), "f:2: roles.t.kind: wrong type: got an integer, expected a string");
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometer'", {"roles.t.period_s=-2"}),
            "--set roles.t.period_s=-2: out of range: got -2, expected >= 0");
  EXPECT_EQ(own_message("[roles.t]\nkind = 'thermometer'", {"roles.t.kind=display"}),
            "--set roles.t.kind=display: says which keys its section has: expected it in the file alone");
}

TEST(ConfigErrors, OfSectionsThatFollowOthers) {
  const std::string role = "[roles.t]\nkind = 'display'\n";
  EXPECT_EQ(own_message(role + "[placement.t]\nnodes = 3"), "ok");
  EXPECT_EQ(own_message(role + "[placement.u]\nnodes = 3"),
            "f:4: unknown key placement.u.nodes (did you mean "
            "placement.t.nodes?)");
  EXPECT_EQ(own_message(role + "[placement.t]\nnodes = -3"),
            "f:4: placement.t.nodes: out of range: got -3, expected >= 0");
  EXPECT_EQ(own_message("[roles.actors]\nkind = 'display'"), "ok") << "whose placement is somebody else's";
}

TEST(ConfigErrors, OfListsOfSections) {
  EXPECT_EQ(own_message("[[channels]]\nfrom = 'a'\n[[channels]]\nfrom = 'b'\ncapacity = 2"), "ok");
  EXPECT_EQ(own_message("[[channels]]\nfrom = 'a'\n[[channels]]\ncapacity = 2"),
            "f:3: missing key channels[1].from: Begin");
  EXPECT_EQ(own_message("[[channels]]\nfrom = 'a'\ncapacity = 0"),
            "f:3: channels[0].capacity: out of range: got 0, expected >= 1");
  EXPECT_EQ(own_message("[[channels]]\nfrom = 'a'\nfrm = 'a'"),
            "f:3: unknown key channels[0].frm (did you mean channels[0].from?)");
  EXPECT_EQ(own_message("[channels]\nfrom = 'a'"),
            "f:1: channels is a list of sections: got a table, expected [[channels]]");
  EXPECT_EQ(own_message("channels = 3"), "f:1: channels is a list of sections: got an integer, expected [[channels]]");
  EXPECT_EQ(own_message("channels = [1]"),
            "f:1: channels is a list of sections: got other values, expected [[channels]]");
  EXPECT_EQ(own_message("channels = []"), "ok");
  EXPECT_EQ(own_message("['channels[0]']\nfrom = 'a'"), "f:1: unknown key channels[0]");
  EXPECT_EQ(own_message("[[channels]]\nfrom = 'a'", {"channels[0].capacity=0"}),
            "--set channels[0].capacity=0: out of range: got 0, expected >= 1");
  EXPECT_EQ(own_message("[[channels]]\nfrom = 'a'", {"channels[1].capacity=1"}),
            "--set channels[1].capacity=1: unknown key channels[1].capacity (did you mean channels[0].capacity?)");
  std::string many;
  for (std::size_t i = 0; i <= kConfigTablesMax; ++i) many += "[[channels]]\nfrom = 'a'\n";
  EXPECT_EQ(own_message(many), "f:1: [[channels]]: got 257 of them, expected at most 256");
}

TEST(ConfigErrors, OwnSectionsAreWrittenAsTheyAreRead) {
  const auto config = parse_config(
      "[[channels]]\nfrom = 'a'\n[[channels]]\nfrom = 'b'\ncapacity = 2\n[roles.t]\nkind = 'thermometer'\n"
      "period_s = 0.5\n[roles.d]\nkind = 'display'\n",
      "f", {}, own_schema());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->count("channels"), 2U);
  EXPECT_EQ(config->get_string("channels[1].from"), "b");
  EXPECT_EQ(config->get_int("channels[0].capacity"), 4);
  EXPECT_EQ(config->get_int("placement.t.nodes"), 2);
  EXPECT_EQ(config->where("channels[1].capacity"), "f:5");
  EXPECT_EQ(config->section("roles.t").get_float("period_s"), 0.5);
  EXPECT_EQ(config->section("roles.t").get_string("kind"), "thermometer");
  EXPECT_FALSE(config->has("roles.t.title"));
  const auto again = parse_config(config->to_toml(), "g", {}, own_schema());
  ASSERT_TRUE(again.ok()) << again.error().message << config->to_toml();
  EXPECT_EQ(again->hash(), config->hash());
  EXPECT_EQ(again->to_toml(), config->to_toml());
}

}  // namespace
}  // namespace troupe
