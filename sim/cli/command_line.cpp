#include "sim/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/quantity.h"

namespace meshweave {
namespace {

// Options as text, before they are checked.
struct RawOptions {
  std::vector<std::string> set, vary;
  std::string precision = "double", model_scale = "full";
  std::string executor = "analytic", progress = "auto", ranks, window, print_program;
  std::string sequence, micro, metric;
  bool no_fold = false, no_timing = false;
  CLI::Option* print_program_option = nullptr;
  std::vector<CLI::Option*> executor_options;  // of each command that has one
};

std::pair<std::string, std::string> split_assignment(std::string_view option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (text.empty() || text[0] != '/' || equals == std::string::npos) {
    throw UsageError(fmt::format("{} {}: must be /json/pointer=value", option, text),
                     fmt::format("for example {} /batch/micro=2", option));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// A whole number of at least 0.
std::optional<int> parse_count(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

CLI::Validator whole_number(int least, int most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
      return fmt::format("\"{}\" is not a whole number ({} to {})", text, least, most);
    const std::optional<int> value = parse_count(text);
    if (!value || *value < least || *value > most)
      return fmt::format("{} is not in range ({} to {})", text, least, most);
    return {};
  };
  return CLI::Validator(check, fmt::format("INT in [{} - {}]", least, most));
}

// "all", or a list such as "0,8,16-23".
void parse_ranks(const std::string& text, TraceRequest& request) {
  if (text == "all") {
    request.all_ranks = true;
    return;
  }
  for (const std::string& part : split_values(text)) {
    const std::size_t dash = part.find('-');
    const std::optional<int> first = parse_count(part.substr(0, dash));
    const std::optional<int> last = dash == std::string::npos ? first : parse_count(part.substr(dash + 1));
    constexpr int most = 1 << 20;
    if (!first || !last || *last < *first || *last - *first >= most) {
      throw UsageError(fmt::format("--ranks: \"{}\" is {}", part,
                                   dash == 0 || dash == std::string::npos ? "not a rank" : "not a range of ranks"),
                       "all, or a list such as 0,8,16-23; ranks count from 0");
    }
    for (int rank = *first; rank <= *last; ++rank) request.ranks.push_back(rank);
  }
}

// "10 ms,25 ms", on the axis of the trace.
void parse_window(const std::string& text, TraceRequest& request) {
  const std::vector<std::string> ends = split_values(text);
  if (ends.size() != 2) {
    throw UsageError(fmt::format("--window: \"{}\" is not two times", text), R"(for example --window "10 ms,25 ms")");
  }
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
  app.add_option("--set", raw.set,
                 "Override a value of the scenario: /json/pointer=value (repeatable; the later of two counts)")
      ->type_name("POINTER=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--json", line.json, "Print JSON");
}

void add_executor_option(CLI::App& app, RawOptions& raw) {
  raw.executor_options.push_back(
      app.add_option("--executor", raw.executor, "analytic (links not shared, fast) or simgrid (links shared)")
          ->type_name("NAME")
          ->capture_default_str());
}

void add_progress_option(CLI::App& app, RawOptions& raw) {
  app.add_option("--progress", raw.progress, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
}

void add_run_options(CLI::App& app, CommandLine& line, RawOptions& raw) {
  add_executor_option(app, raw);
  app.add_flag("--no-fold", raw.no_fold, "Replay every rank, also those that behave alike");
  app.add_flag("--stats", line.stats, "Print the time of each phase, ops per second and peak memory to stderr");
  add_progress_option(app, raw);
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
      ->check(whole_number(1, 1024));
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

void build_analyze(CLI::App& analyze, CommandLine& line, RawOptions& raw) {
  analyze.add_option("scenario", line.targets, "Scenario file")->type_name("SCENARIO")->required()->expected(1);
  add_scenario_options(analyze, line, raw);
  analyze
      .add_option("--devices", line.analyze.devices,
                  "Devices D that the strategies share; pp and dp stay (default: tp · cp · tsp of the scenario)")
      ->type_name("N")
      ->check(whole_number(2, 1 << 13));
  analyze.add_option("--plot", line.analyze.plot_file, "Draw the swept metric: FILE.svg")->type_name("FILE");
  analyze
      .add_option("--sequence", raw.sequence,
                  "Sequence lengths to sweep (with --plot default: 8192,16384,32768,65536,131072)")
      ->type_name("A,B,C");
  analyze.add_option("--micro", raw.micro, "Micro-batch sizes to sweep, with as many micro-batches")
      ->type_name("A,B,C");
  analyze
      .add_option("--metric", raw.metric, "What is swept: time (per token; default), memory, bytes or forward-bytes")
      ->type_name("NAME");
  analyze.add_option("--jobs", line.jobs, "Runs at the same time (default: one per processor)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  add_progress_option(analyze, raw);
}

void build_compare(CLI::App& compare, CommandLine& line, RawOptions& raw) {
  compare
      .add_option("runs", line.targets,
                  "Two scenario files or traces (FILE.json or FILE.json.gz of --trace): A, then B")
      ->type_name("A B")
      ->required()
      ->expected(2);
  compare.add_flag("--json", line.json, "Print JSON");
  add_executor_option(compare, raw);
  add_progress_option(compare, raw);
}

void build_emulate(CLI::App& emulate, CommandLine& line, RawOptions& raw) {
  emulate.add_option("scenario", line.targets, "Scenario file")->type_name("SCENARIO")->required()->expected(1);
  add_scenario_options(emulate, line, raw);
  emulate.add_option("--steps", line.steps, "Training steps")
      ->type_name("N")
      ->check(whole_number(1, 100'000))
      ->capture_default_str();
  emulate.add_option("--precision", raw.precision, "float or double")->type_name("NAME")->capture_default_str();
  emulate.add_option("--model-scale", raw.model_scale, "full, or tiny: a small model in the same layout and schedule")
      ->type_name("SCALE")
      ->capture_default_str();
  emulate.add_option("--jobs", line.jobs, "Threads (default: one per processor)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  emulate.add_option("--trace", line.trace_file, "Write the order of the last step: FILE.json or FILE.json.gz")
      ->type_name("FILE");
  emulate.add_option("--ranks", raw.ranks, "Ranks in the trace: all, or a list such as 0,8,16-23 (default: all)")
      ->type_name("LIST");
  add_progress_option(emulate, raw);
}

// No option and no command takes the empty text for a value: it comes of a shell variable that is not set.
void refuse_empty(const std::vector<std::string>& arguments) {
  const std::string hint = "shell variables that are not set give empty arguments";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty()) {
      throw UsageError(
          i == 0 ? "the first argument is empty" : fmt::format("the argument after {} is empty", arguments[i - 1]),
          hint);
    }
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      throw UsageError(fmt::format("{} is followed by nothing", argument), hint);
    }
  }
}

// Whether giving `outer` a value replaces the one at `pointer`. "/-" appends.
bool covers(const std::string& outer, const std::string& pointer) {
  return !outer.ends_with("/-") && (pointer == outer || pointer.starts_with(outer + "/"));
}

// A varied value must reach the scenario: nothing that is set behind it may take its place. --vary comes behind --set.
void check_vary(const CommandLine& line) {
  for (std::size_t i = 0; i < line.vary.size(); ++i) {
    const Vary& vary = line.vary[i];
    if (std::find(vary.values.begin(), vary.values.end(), "") != vary.values.end()) {
      throw UsageError(fmt::format("--vary {}: a value is empty", vary.pointer), R"("" is the empty text)");
    }
    for (std::size_t j = 0; j < i; ++j) {
      const std::string& before = line.vary[j].pointer;
      if (!covers(vary.pointer, before)) continue;
      if (vary.pointer == before) {
        throw UsageError(fmt::format("--vary: {} is varied twice", before),
                         "one --vary takes all values, for example --vary /batch/micro=1,2,4");
      }
      throw UsageError(fmt::format("--vary: {} replaces {}, which is varied before it", vary.pointer, before),
                       fmt::format("give --vary {} first", vary.pointer));
    }
    for (const Override& setting : line.overrides) {
      if (!covers(vary.pointer, setting.pointer)) continue;
      throw UsageError(fmt::format("--vary {} replaces what --set {} gives", vary.pointer, setting.pointer),
                       "leave one of them out");
    }
  }
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
  const std::string hint = &command == &app ? "meshweave --help lists the commands"
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

// "8192,16384", ascending and without repetitions.
std::vector<std::int64_t> parse_values(std::string_view option, const std::string& text) {
  std::vector<std::int64_t> values;
  if (text.empty()) return values;
  for (const std::string& part : split_values(text)) {
    const std::optional<int> value = parse_count(part);
    if (!value || *value == 0) {
      throw UsageError(fmt::format("{}: \"{}\" is not a whole number above 0", option, part),
                       fmt::format("for example {} {}", option, option == "--micro" ? "1,2,4,8" : "8192,16384,32768"));
    }
    values.push_back(*value);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  constexpr std::size_t most = 1000;
  if (values.size() > most) throw UsageError(fmt::format("{}: more than {} values", option, most));
  return values;
}

void check_analyze(CommandLine& line, const RawOptions& raw) {
  AnalyzeOptions& options = line.analyze;
  options.sequence = parse_values("--sequence", raw.sequence);
  options.micro = parse_values("--micro", raw.micro);
  if (!options.sequence.empty() && !options.micro.empty()) {
    throw UsageError("--sequence and --micro: one of them can be swept", "--set gives the other a value");
  }
  if (!options.plot_file.empty() && !options.plot_file.ends_with(".svg")) {
    throw UsageError(fmt::format("--plot: {} does not end in .svg", options.plot_file),
                     "for example --plot strategies.svg");
  }
  if (raw.metric.empty()) return;
  const std::optional<SweepMetric> metric = sweep_metric(raw.metric);
  if (!metric) {
    throw UsageError(fmt::format("--metric: unknown metric \"{}\"", raw.metric),
                     "time, memory, bytes or forward-bytes");
  }
  options.metric = *metric;
  if (options.plot_file.empty() && options.sequence.empty() && options.micro.empty()) {
    throw UsageError("--metric chooses what is swept", "add --plot FILE.svg, --sequence A,B,C or --micro A,B,C");
  }
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
  check_vary(line);
  check_analyze(line, raw);
  line.executor_given = std::any_of(raw.executor_options.begin(), raw.executor_options.end(),
                                    [](const CLI::Option* option) { return option->count() > 0; });
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
    throw UsageError(line.command == Command::emulate ? "--ranks chooses a part of the trace"
                                                      : "--ranks and --window choose a part of the trace",
                     "add --trace FILE.json.gz");
  }
  if (raw.print_program_option != nullptr && raw.print_program_option->count() > 0) {
    line.print_program = true;
    for (const auto& [other, given] : {std::pair("--json", line.json), std::pair("--stats", line.stats),
                                       std::pair("--trace", !line.trace_file.empty())}) {
      if (!given) continue;
      throw UsageError(fmt::format("--print-program prints text and stops: {} has no effect", other),
                       "leave one of them out");
    }
    if (raw.print_program.empty()) return;
    const std::optional<int> body = parse_count(raw.print_program);
    if (!body) {
      throw UsageError(fmt::format("--print-program: \"{}\" is no body", raw.print_program), "bodies count from 0");
    }
    line.print_body = *body;
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
  CLI::App* analyze = app.add_subcommand(
      "analyze", "Compare DP, TP, SP, TP+SP and TSP at one number of devices, counted on their programs");
  build_analyze(*analyze, line, raw);
  CLI::App* compare = app.add_subcommand("compare", "Say what the difference of two runs' step times consists of");
  build_compare(*compare, line, raw);
  CLI::App* emulate = app.add_subcommand("emulate", "Run the program with real numbers and compare with a plain model");
  build_emulate(*emulate, line, raw);
  CLI::App* list = app.add_subcommand("list", "List the shipped models, devices, nodes and fabrics");
  list->add_option("section", line.list_section, "models, devices, nodes or fabrics")->type_name("SECTION");
  list->add_flag("--json", line.json, "Print JSON, with the facts of each entry");
  CLI::App* schema = app.add_subcommand("schema", "Print the JSON Schema of scenario files");
  schema->add_flag("--json", line.json, "Accepted for uniformity: the schema is JSON");

  refuse_empty(arguments);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (!arguments.empty() && !arguments[0].empty() && arguments[0][0] != '-' &&
      std::find(names.begin(), names.end(), arguments[0]) == names.end()) {
    const std::string near = nearest_name(arguments[0], names);
    throw UsageError(
        fmt::format("unknown command \"{}\"", arguments[0]),
        near.empty() ? fmt::format("one of {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near));
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
                 : analyze->parsed() ? Command::analyze
                 : compare->parsed() ? Command::compare
                 : emulate->parsed() ? Command::emulate
                 : list->parsed()    ? Command::list
                                     : Command::schema;
  check_options(line, raw);
  return line;
}

}  // namespace meshweave
