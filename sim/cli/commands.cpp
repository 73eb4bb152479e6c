#include "sim/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>

#include "sim/base/error.h"
#include "sim/cli/analyze_command.h"
#include "sim/cli/catalog_facts.h"
#include "sim/cli/compare_command.h"
#include "sim/cli/emulate_command.h"
#include "sim/cli/run_stats.h"
#include "sim/cli/trace_option.h"
#include "sim/program/print.h"
#include "sim/report/diagnostics_json.h"
#include "sim/report/explain.h"
#include "sim/report/report_json.h"
#include "sim/report/report_table.h"
#include "sim/scenario/input_file.h"
#include "sim/search/pipeline.h"
#include "sim/search/suggestions.h"
#include "sim/search/sweep.h"
#include "sim/trace/trace_writer.h"

namespace meshweave {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> json_files(const std::string& folder, std::error_code& error) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> folders_with_scenarios(const std::string& folder) {
  std::vector<std::string> folders;
  std::error_code ignored;  // what cannot be looked at is not named
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored) && !json_files(entry.path().string(), ignored).empty()) {
      folders.push_back(entry.path().string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The scenario files that the targets stand for: files as they are, folders as their *.json in order of name.
std::vector<std::string> scenario_files(const std::vector<std::string>& targets) {
  std::vector<std::string> files;
  for (const std::string& target : targets) {
    std::error_code error;
    if (!fs::is_directory(target, error)) {
      files.push_back(target);
      continue;
    }
    const std::vector<std::string> inside = json_files(target, error);
    if (error) throw IoError(fmt::format("{}: cannot be read: {}", target, error.message()));
    if (inside.empty()) {
      const std::vector<std::string> below = folders_with_scenarios(target);
      throw IoError(
          fmt::format("{}: holds no *.json{}", target,
                      below.empty() ? "" : fmt::format(", but {} do: name one of them", fmt::join(below, ", "))));
    }
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

bool is_single(const CommandLine& line) {
  std::error_code error;
  return line.targets.size() == 1 && line.vary.empty() && !fs::is_directory(line.targets.front(), error);
}

RunSettings settings_of(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  RunSettings settings;
  settings.executor = line.executor;
  settings.fold = line.fold;
  settings.interrupt = &interrupt;
  settings.on_phase = [&console](std::string_view phase) { console.progress(phase); };
  return settings;
}

// What helps where the run's step does not fit, if it does not. `text` is that of the scenario file.
std::optional<Suggestions> suggestions_for(const RunOutcome& run, const std::string& text, const CommandLine& line,
                                           Console& console, const InterruptFlag& interrupt) {
  if (run.report.memory.verdict != Verdict::out_of_memory) return std::nullopt;
  RunSettings cheap;
  cheap.interrupt = &interrupt;
  SuggestionSettings settings;
  settings.simulate = [&](const Change& change) -> std::optional<Report> {
    std::vector<Override> overrides = line.overrides;
    overrides.insert(overrides.end(), change.begin(), change.end());
    try {
      return parse_and_run(text, line.targets.front(), overrides, cheap).report;
    } catch (const InputError&) {
      return std::nullopt;
    }
  };
  settings.on_progress = [&console](std::size_t done, std::size_t all, const Change& change) {
    console.progress(fmt::format("does not fit; try [{}/{}] {}", done + 1, all, option_text(change)));
  };
  return suggest(run.scenario, settings);
}

ExitCode run_one(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  if (!line.trace_file.empty()) check_trace_file(line);
  RunSettings settings = settings_of(line, console, interrupt);
  if (!line.trace_file.empty()) settings.on_read = [&line](const Scenario& s) { check_trace_inputs(line, s); };
  // Read once: standard input gives its text only once.
  const std::string text = read_text_file(line.targets.front());
  const RunOutcome run = parse_and_run(text, line.targets.front(), line.overrides, settings);
  if (!line.trace_file.empty()) {
    check_ranks(line.trace, run.program.ranks());
    console.progress("writing the trace");
    const Trace trace = build_trace(run.view(), line.trace, version_text());
    check_window(line.trace, trace);
    write_trace(trace, line.trace_file, &interrupt);
  }
  if (line.json) {
    JsonText out(2);
    out.object();
    write_report(out, run.view(), run.report);
    if (const auto suggestions = suggestions_for(run, text, line, console, interrupt))
      write_suggestions(out, *suggestions);
    if (line.timing) write_timing(out, run);
    out.end();
    console.result(out.take() + "\n");
  } else {
    // The page is there to be read while the changes behind it are simulated.
    console.result(report_page(run.view(), run.report));
    if (const auto suggestions = suggestions_for(run, text, line, console, interrupt)) {
      console.result(suggestions_text(*suggestions));
    }
    if (line.timing) console.result(fmt::format("\nsimulated in {}\n", seconds_text(run.wall_s())));
  }
  if (line.stats) console.message(stats_table(run));
  return exit_ok;
}

ExitCode print_one_program(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  const Program program = lower_verified(read_scenario(line.targets.front(), line.overrides), &interrupt);
  if (line.print_body >= static_cast<int>(program.bodies.size())) {
    throw UsageError(fmt::format("--print-program: there is no body {} (0 to {})", line.print_body,
                                 static_cast<int>(program.bodies.size()) - 1));
  }
  console.result(print_program(program, line.print_body));
  return exit_ok;
}

// Every file crossed with every combination of varied values; the first --vary changes slowest.
std::vector<SweepPoint> sweep_points(const CommandLine& line) {
  std::vector<SweepPoint> points;
  for (const std::string& file : scenario_files(line.targets)) points.push_back({file, line.overrides, {}});
  constexpr std::size_t most = 100'000;
  for (const Vary& vary : line.vary) {
    if (points.size() * vary.values.size() > most) {
      throw UsageError(fmt::format("--vary: more than {} points", most));
    }
    std::vector<SweepPoint> crossed;
    for (const SweepPoint& point : points) {
      for (const std::string& value : vary.values) {
        crossed.push_back(point);
        crossed.back().overrides.push_back({vary.pointer, value, "--vary"});
        crossed.back().vary.emplace_back(vary.pointer, value);
      }
    }
    points = std::move(crossed);
  }
  return points;
}

// A folder's bad scenario is an error. Of the points of a --vary some may be impossible, but not all.
ExitCode exit_code_of(const std::vector<SweepRow>& rows, const CommandLine& line, Console& console) {
  const bool varied = !line.vary.empty();
  const bool any_ran = std::any_of(rows.begin(), rows.end(), [](const SweepRow& row) { return row.ran(); });
  if (varied && any_ran) return exit_ok;
  ExitCode code = exit_ok;
  std::vector<Diagnostic> diagnostics;
  for (const SweepRow& row : rows) {
    if (row.ran()) continue;
    diagnostics.insert(diagnostics.end(), row.refused.begin(), row.refused.end());
    if (code == exit_ok) code = row.unreadable ? exit_io : exit_bad_input;
    if (varied) break;
  }
  const bool stands_in_array = varied && line.json;
  if (!diagnostics.empty() && !stands_in_array) console.errors(diagnostics);
  return code;
}

ExitCode run_many(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  if (!line.trace_file.empty()) throw UsageError("--trace needs a single run");
  SweepSettings settings;
  settings.run = settings_of(line, console, interrupt);
  settings.run.on_phase = nullptr;
  settings.jobs = line.jobs;
  if (line.timing) settings.write_timing = write_timing;
  settings.on_progress = [&console](std::size_t done, std::size_t all, const std::string& path) {
    console.progress(fmt::format("[{}/{}] {}", done, all, path));
  };
  const std::vector<SweepPoint> points = sweep_points(line);
  std::vector<SweepRow> rows = sweep(points, settings);
  if (!line.vary.empty()) sort_by_step_time(rows);
  // An interrupt comes after what was finished before it.
  if (!rows.empty()) console.result(line.json ? sweep_json(rows) : sweep_table(rows));
  if (rows.size() < points.size()) {
    throw Interrupted(fmt::format("interrupted: {} of {} {} finished", rows.size(),
                                  count_text(static_cast<std::int64_t>(points.size()), "run"),
                                  rows.size() == 1 ? "is" : "are"));
  }
  if (line.stats) console.message(fmt::format("peak RSS {:.1f} MB\n", peak_rss_bytes() * 1e-6));
  return exit_code_of(rows, line, console);
}

ExitCode run(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  if (line.print_program) {
    if (!is_single(line)) throw UsageError("--print-program needs a single scenario");
    return print_one_program(line, console, interrupt);
  }
  return is_single(line) ? run_one(line, console, interrupt) : run_many(line, console, interrupt);
}

ExitCode check(const CommandLine& line, Console& console) {
  if (is_single(line)) {
    console.result(read_scenario(line.targets.front(), line.overrides).resolved_json + "\n");
    return exit_ok;
  }
  std::vector<Diagnostic> wrong;
  JsonText json(2);
  std::string text;
  json.array();
  for (const std::string& file : scenario_files(line.targets)) {
    std::vector<Diagnostic> found;
    try {
      read_scenario(file, line.overrides);
    } catch (const InputError& error) {
      found = error.diagnostics();
    }
    json.object(), json.field("scenario", file), json.field("ok", found.empty());
    json.key("errors"), json.raw(diagnostics_json(found)), json.end();
    text += fmt::format("{}: {}\n", escaped(file), found.empty() ? "ok" : "not possible");
    wrong.insert(wrong.end(), found.begin(), found.end());
  }
  json.end();
  console.result(line.json ? json.take() + "\n" : text);
  if (wrong.empty()) return exit_ok;
  if (!line.json) console.errors(wrong);
  return exit_bad_input;
}

ExitCode explain(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  const RunSettings settings = settings_of(line, console, interrupt);
  const RunOutcome run = read_and_run(line.targets.front(), line.overrides, settings);
  Explanation explanation = explain_report(run.view(), run.report);
  if (!run.scenario.perturb.empty()) {
    explain_delay(explanation, run.view(), run.report, unperturbed_step_s(run, settings),
                  steps_without_s(run, settings));
  }
  console.result(line.json ? explanation_json(explanation) : explanation_text(explanation));
  if (line.stats) console.message(stats_table(run));
  return exit_ok;
}

ExitCode list(const CommandLine& line, Console& console) {
  const CatalogNames names = list_catalog();
  struct Section {
    std::string name;
    const std::vector<std::string>& entries;
    void (*write_facts)(JsonText&, std::string_view);
  };
  const Section sections[] = {{"models", names.models, write_model_facts},
                              {"devices", names.devices, write_device_facts},
                              {"nodes", names.nodes, write_node_facts},
                              {"fabrics", names.fabrics, write_fabric_facts}};
  std::vector<std::string> known;
  for (const Section& section : sections) known.push_back(section.name);
  if (!line.list_section.empty() && std::find(known.begin(), known.end(), line.list_section) == known.end()) {
    const std::string near = nearest_name(line.list_section, known);
    throw UsageError(
        fmt::format("list: unknown section \"{}\"", line.list_section),
        near.empty() ? fmt::format("one of {}", fmt::join(known, ", ")) : fmt::format("did you mean \"{}\"?", near));
  }
  JsonText json(2);
  std::string text;
  json.object();
  for (const Section& section : sections) {
    if (!line.list_section.empty() && section.name != line.list_section) continue;
    json.key(section.name), json.array();
    text += (text.empty() ? "" : "\n") + section.name + "\n";
    for (const std::string& entry : section.entries) {
      if (line.json) section.write_facts(json, entry);
      text += "  " + escaped(entry) + "\n";
    }
    json.end();
  }
  json.end();
  console.result(line.json ? json.take() + "\n" : text);
  return exit_ok;
}

ExitCode dispatch(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  switch (line.command) {
    case Command::help: console.result(line.help); return exit_ok;
    case Command::run: return run(line, console, interrupt);
    case Command::check: return check(line, console);
    case Command::explain: return explain(line, console, interrupt);
    case Command::analyze: return analyze_command(line, console, interrupt);
    case Command::compare: return compare_command(line, console, interrupt);
    case Command::emulate: return emulate_command(line, console, interrupt);
    case Command::list: return list(line, console);
    case Command::schema: console.result(scenario_schema()); return exit_ok;
  }
  bug("unknown command");
}

}  // namespace

ExitCode run_command(const CommandLine& line, Console& console, const InterruptFlag& interrupt) {
  try {
    return dispatch(line, console, interrupt);
  } catch (const UsageError& error) {
    console.error(error.what(), error.hint());
    return exit_usage;
  } catch (const InputError& error) {
    console.errors(error.diagnostics());
    return exit_bad_input;
  } catch (const IoError& error) {
    console.error(error.what());
    return exit_io;
  } catch (const BrokenPipe&) {
    return exit_broken_pipe;
  } catch (const Interrupted& interrupted) {
    console.error(interrupted.what());
    return exit_interrupted;
  } catch (const std::bad_alloc&) {
    console.error("this machine has not enough memory for the run");
    return exit_io;
  } catch (const std::exception& error) {
    bug(error.what());
  }
}

}  // namespace meshweave
