#include "sim/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "sim/base/error.h"
#include "sim/base/quantity.h"

namespace meshweave {
namespace {

// Options as text, before they are checked.
struct RawOptions {
  std::vector<std::string> set, vary;
  std::string precision = "double", model_scale = "full";
  std::string executor = "analytic", progress = "auto", ranks, window, print_program;
  bool no_fold = false, no_timing = false;
  CLI::Option* print_program_option = nullptr;
};

std::pair<std::string, std::string> split_assignment(std::string_view option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (text.empty() || text[0] != '/' || equals == std::string::npos) {
    throw UsageError(fmt::format("{} {}: must be /json/pointer=value", option, text),
                     fmt::format("for example {} /batch/micro=2", option));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

int parse_integer(std::string_view what, std::string_view text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    throw UsageError(fmt::format("{}: \"{}\" is not a whole number of at least {}", what, text, least));
  }
  return value;
}

// "all", or a list such as "0,8,16-23".
void parse_ranks(const std::string& text, TraceRequest& request) {
  if (text == "all") {
    request.all_ranks = true;
    return;
  }
  for (const std::string& part : split_values(text)) {
    const std::size_t dash = part.find('-');
    const int first = parse_integer("--ranks", part.substr(0, dash), 0);
    const int last = dash == std::string::npos ? first : parse_integer("--ranks", part.substr(dash + 1), 0);
    constexpr int most = 1 << 20;
    if (last < first || last - first >= most) throw UsageError(fmt::format("--ranks: \"{}\" is not a range", part));
    for (int rank = first; rank <= last; ++rank) request.ranks.push_back(rank);
  }
}

// "10 ms,25 ms", counted from the begin of the step.
void parse_window(const std::string& text, TraceRequest& request) {
  const std::vector<std::string> ends = split_values(text);
  if (ends.size() != 2) throw UsageError("--window: must be two times, for example \"10 ms,25 ms\"");
  Picoseconds times[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const ParsedQuantity parsed = parse_quantity(ends[i], QuantityKind::seconds);
    if (!parsed.error.empty()) throw UsageError(fmt::format("--window: {}", parsed.error));
    if (parsed.value < 0 || parsed.value > 1e6) throw UsageError("--window: a time must lie between 0 and 1e6 s");
    times[i] = picoseconds_from_seconds(parsed.value);
  }
  if (times[1] < times[0]) throw UsageError("--window: ends before it begins");
  request.window = {times[0], times[1]};
}

void add_scenario_options(CLI::App& app, CommandLine& line, RawOptions& raw) {
  app.add_option("--set", raw.set, "Override a value of the scenario: /json/pointer=value (repeatable)")
      ->type_name("POINTER=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--json", line.json, "Print JSON");
}

void add_run_options(CLI::App& app, CommandLine& line, RawOptions& raw) {
  app.add_option("--executor", raw.executor, "analytic (links not shared, fast) or simgrid (links shared)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--no-fold", raw.no_fold, "Replay every rank, also those that behave alike");
  app.add_flag("--stats", line.stats, "Print the time of each phase, ops per second and peak memory to stderr");
  app.add_option("--progress", raw.progress, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
}

void build_run(CLI::App& run, CommandLine& line, RawOptions& raw) {
  run.add_option("scenario", line.targets, "Scenario files; a folder stands for its *.json")
      ->type_name("SCENARIO|FOLDER")
      ->required();
  add_scenario_options(run, line, raw);
  run.add_option("--vary", raw.vary, "Run once per value, crossed with other --vary: /json/pointer=a,b,c")
      ->type_name("POINTER=VALUES")
      ->allow_extra_args(false);
  add_run_options(run, line, raw);
  run.add_option("--jobs", line.jobs, "Runs at the same time (default: one per processor)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  run.add_option("--trace", line.trace_file, "Write the timeline: FILE.json or FILE.json.gz")->type_name("FILE");
  run.add_option("--ranks", raw.ranks, "Ranks in the trace: all, or a list such as 0,8,16-23 (default: one per class)")
      ->type_name("LIST");
  run.add_option("--window", raw.window, "Part of the step in the trace, for example \"10 ms,25 ms\"")
      ->type_name("FROM,TO");
  run.add_flag("--no-timing", raw.no_timing, "Leave out how long the run itself took");
  raw.print_program_option =
      run.add_option("--print-program", raw.print_program, "Print the lowered program, or one body of it, and stop")
          ->type_name("[BODY]")
          ->expected(0, 1);
}

void build_emulate(CLI::App& emulate, CommandLine& line, RawOptions& raw) {
  emulate.add_option("scenario", line.targets, "Scenario file")->type_name("SCENARIO")->required()->expected(1);
  add_scenario_options(emulate, line, raw);
  emulate.add_option("--steps", line.steps, "Training steps")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  emulate.add_option("--precision", raw.precision, "float or double")->type_name("NAME")->capture_default_str();
  emulate
      .add_option("--model-scale", raw.model_scale, "full, or tiny: a small model in the same layout and schedule")
      ->type_name("SCALE")
      ->capture_default_str();
  emulate.add_option("--jobs", line.jobs, "Threads (default: one per processor)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  emulate.add_option("--trace", line.trace_file, "Write the order of the last step: FILE.json or FILE.json.gz")
      ->type_name("FILE");
  emulate.add_option("--ranks", raw.ranks, "Ranks in the trace: all, or a list such as 0,8,16-23 (default: all)")
      ->type_name("LIST");
  emulate.add_option("--progress", raw.progress, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.front();
}

[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  const std::string hint = &command == &app
                               ? "meshweave --help lists the commands"
                               : fmt::format("meshweave {} --help lists the options", command.get_name());
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> extras = app.remaining(true);
    const std::string extra = extras.empty() ? "" : extras.front();
    const std::string near = nearest_name(extra.substr(0, extra.find('=')), option_names(command));
    throw UsageError(fmt::format("unexpected argument \"{}\"", extra),
                     near.empty() ? hint : fmt::format("did you mean {}?", near));
  }
  throw UsageError(error.what(), hint);
}

void check_options(CommandLine& line, const RawOptions& raw) {
  for (const std::string& text : raw.set) {
    auto [pointer, value] = split_assignment("--set", text);
    line.overrides.push_back({std::move(pointer), std::move(value)});
  }
  for (const std::string& text : raw.vary) {
    auto [pointer, values] = split_assignment("--vary", text);
    line.vary.push_back({std::move(pointer), split_values(values)});
  }
  if (raw.executor == name_of(Executor::simgrid)) {
    line.executor = Executor::simgrid;
  } else if (raw.executor != name_of(Executor::analytic)) {
    throw UsageError(fmt::format("--executor: unknown executor \"{}\"", raw.executor), "analytic or simgrid");
  }
  if (raw.progress == "always") {
    line.progress = ProgressMode::always;
  } else if (raw.progress == "never") {
    line.progress = ProgressMode::never;
  } else if (raw.progress != "auto") {
    throw UsageError(fmt::format("--progress: unknown value \"{}\"", raw.progress), "auto, always or never");
  }
  if (raw.precision == name_of(EmulationPrecision::single_precision)) {
    line.precision = EmulationPrecision::single_precision;
  } else if (raw.precision != name_of(EmulationPrecision::double_precision)) {
    throw UsageError(fmt::format("--precision: unknown precision \"{}\"", raw.precision), "float or double");
  }
  line.tiny = raw.model_scale == "tiny";
  if (!line.tiny && raw.model_scale != "full") {
    throw UsageError(fmt::format("--model-scale: unknown scale \"{}\"", raw.model_scale), "full or tiny");
  }
  line.fold = !raw.no_fold;
  line.timing = !raw.no_timing;
  if (!raw.ranks.empty()) parse_ranks(raw.ranks, line.trace);
  if (!raw.window.empty()) parse_window(raw.window, line.trace);
  if (line.trace_file.empty() && !(raw.ranks.empty() && raw.window.empty())) {
    throw UsageError("--ranks and --window choose a part of the trace", "add --trace FILE.json.gz");
  }
  if (raw.print_program_option != nullptr && raw.print_program_option->count() > 0) {
    line.print_program = true;
    if (!raw.print_program.empty()) line.print_body = parse_integer("--print-program", raw.print_program, 0);
  }
}

}  // namespace

std::string_view version_text() { return "meshweave " MESHWEAVE_VERSION; }

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      values.back() += c;
      values.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{')) ++depth;
    if (!quoted && (c == ']' || c == '}')) --depth;
    if (c == ',' && !quoted && depth <= 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  return values;
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  RawOptions raw;
  CLI::App app("Predicts what a training step of a large model costs on a cluster, and why.", "meshweave");
  app.set_version_flag("--version", std::string(version_text()));
  app.require_subcommand(1);
  CLI::App* run = app.add_subcommand("run", "Simulate scenarios and report the step");
  build_run(*run, line, raw);
  CLI::App* check = app.add_subcommand("check", "Read scenarios, print them with every default filled in");
  check->add_option("scenario", line.targets, "Scenario files; a folder stands for its *.json")
      ->type_name("SCENARIO|FOLDER")
      ->required();
  add_scenario_options(*check, line, raw);
  CLI::App* explain = app.add_subcommand("explain", "Say where the numbers of a report come from");
  explain->add_option("scenario", line.targets, "Scenario file")->type_name("SCENARIO")->required()->expected(1);
  add_scenario_options(*explain, line, raw);
  add_run_options(*explain, line, raw);
  CLI::App* emulate = app.add_subcommand("emulate", "Run the program with real numbers and compare with a plain model");
  build_emulate(*emulate, line, raw);
  CLI::App* list = app.add_subcommand("list", "List the shipped models, devices, nodes and fabrics");
  list->add_option("section", line.list_section, "models, devices, nodes or fabrics")->type_name("SECTION");
  list->add_flag("--json", line.json, "Print JSON");
  CLI::App* schema = app.add_subcommand("schema", "Print the JSON Schema of scenario files");
  schema->add_flag("--json", line.json, "Accepted for uniformity: the schema is JSON");

  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (!arguments.empty() && !arguments[0].empty() && arguments[0][0] != '-' &&
      std::find(names.begin(), names.end(), arguments[0]) == names.end()) {
    const std::string near = nearest_name(arguments[0], names);
    throw UsageError(fmt::format("unknown command \"{}\"", arguments[0]),
                     near.empty() ? fmt::format("one of {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean \"{}\"?", near));
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    line.help = chosen(app).help(chosen(app).get_name() == "meshweave" ? "" : "meshweave");
    return line;
  } catch (const CLI::CallForVersion&) {
    line.help = std::string(version_text()) + "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    refuse(app, error);
  }
  line.command = run->parsed()       ? Command::run
                 : check->parsed()   ? Command::check
                 : explain->parsed() ? Command::explain
                 : emulate->parsed() ? Command::emulate
                 : list->parsed()    ? Command::list
                                     : Command::schema;
  check_options(line, raw);
  return line;
}

}  // namespace meshweave
