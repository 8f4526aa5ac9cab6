#include "bench/create_report.h"

#include <algorithm>

#include "runtime/wire/spawner.h"

namespace atl::bench {
namespace {

using Cells = std::vector<std::string>;

std::string Row(const Cells& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row.append(" ").append(cell).append(" |");
  return row + "\n";
}

std::string Head(const Cells& cells) {
  std::string text = "\n" + Row(cells) + "|---|";
  for (size_t i = 1; i < cells.size(); ++i) text.append("---:|");
  return text + "\n";
}

std::string Ms(double value) {
  return Fixed(value, 2);
}

std::string Ratio(double value, double base) {
  return base > 0 ? Fixed(value / base, 2) : "-";
}

// A run of one measurement alone has the others empty.
bool HasCold(const Results& results) {
  return !results.cold.flat.empty();
}
bool HasExec(const Results& results) {
  return results.exec.sh_flat.complete.size() > 0;
}

// p50 and p99, with rest and flat out.
Cells Both(const std::string& what, const Samples& rested, const Samples& flat) {
  return {what, Ms(rested.p50()), Ms(rested.p99()), Ms(flat.p50()), Ms(flat.p99())};
}

const PeerTimes* Crun(const ColdResults& cold) {
  for (const PeerTimes& peer : cold.peers) {
    if (peer.name == "crun run" && peer.missing.empty()) return &peer;
  }
  return nullptr;
}

struct ImageName {
  const char* image;
  const char* text;
};
constexpr ImageName kImageNames[] = {{kBusyboxImage, "1-layer busybox"},
                                     {kDebianImage, "12-layer Debian"}};

std::string ColdTable(const Results& results) {
  const PeerTimes* crun = Crun(results.cold);
  const double rest = crun ? crun->rested.p50() : 0;
  const double flat = crun ? crun->flat.p50() : 0;
  std::string text = Head({"cold create, ms", "rest p50", "rest p99", "flat p50", "flat p99",
                           "÷ crun, rest", "÷ crun, flat"});
  const auto add = [&](const std::string& what, const Samples& rested, const Samples& flat_out) {
    Cells cells = Both(what, rested, flat_out);
    cells.push_back(Ratio(rested.p50(), rest));
    cells.push_back(Ratio(flat_out.p50(), flat));
    text += Row(cells);
  };
  for (const auto& [image, name] : kImageNames) {
    const Cold& rested = results.cold.rested.at(image);
    const Cold& flat_out = results.cold.flat.at(image);
    add(std::string(name) + ": create answered", rested.created, flat_out.created);
    add(std::string(name) + ": endpoint known", rested.execd, flat_out.execd);
    add("**" + std::string(name) + ": first output**", rested.first, flat_out.first);
    add(std::string(name) + ": delete answered", rested.deleted, flat_out.deleted);
  }
  for (const PeerTimes& peer : results.cold.peers) {
    if (peer.missing.empty()) {
      add(peer.name + ": first output", peer.rested, peer.flat);
    } else {
      text += Row({peer.name, "skipped: " + peer.missing, "", "", "", "", ""});
    }
  }
  return text;
}

std::string ExecTable(const ExecResults& exec) {
  std::string text =
      Head({"`echo hi` in a live sandbox, ms", "rest p50", "rest p99", "flat p50", "flat p99"});
  text += Row(Both("sh: first output", exec.sh_rested.first, exec.sh_flat.first));
  text += Row(Both("sh: complete", exec.sh_rested.complete, exec.sh_flat.complete));
  text += Row(Both("bash: first output", exec.bash_rested.first, exec.bash_flat.first));
  text += Row(Both("bash: complete", exec.bash_rested.complete, exec.bash_flat.complete));
  text += Row(Both("`busybox sh -c` alone, on the host", exec.host_sh_rested, exec.host_sh_flat));
  text += Row(Both("`bash -c` alone, on the host", exec.host_bash_rested, exec.host_bash_flat));
  return text;
}

std::string LoadTables(const Results& results) {
  std::string text;
  const DeleteResults& deletes = results.deletes;
  if (deletes.answered.size() > 0) {
    text += Head({"delete, ms", "p50", "p99"});
    text += Row({"answered", Ms(deletes.answered.p50()), Ms(deletes.answered.p99())});
    text += Row({"everything gone", Ms(deletes.gone.p50()), Ms(deletes.gone.p99())});
  }
  if (!results.bursts.empty()) {
    text += Head({"creates at once", "failed", "wall p50", "create answered p50 / p99",
                  "first output p50 / p99"});
  }
  for (const Burst& burst : results.bursts) {
    text += Row({std::to_string(burst.size), std::to_string(burst.failed), Ms(burst.wall.p50()),
                 Ms(burst.created.p50()) + " / " + Ms(burst.created.p99()),
                 Ms(burst.first.p50()) + " / " + Ms(burst.first.p99())});
  }
  if (!results.throughput.empty()) {
    text += Head({"clients", "create + command + delete a second"});
  }
  for (const Throughput& one : results.throughput) {
    text += Row({std::to_string(one.clients), Fixed(one.per_second, 0)});
  }
  return text;
}

std::string IdleTable(const Idle& idle) {
  std::string text = Head(
      {"memory of an idle sandbox, KiB (" + std::to_string(idle.sandboxes) + " alive)", "each"});
  text += Row({"execd, PSS", Fixed(idle.execd, 0)});
  text += Row({"atolld, growth of PSS", Fixed(idle.atolld, 1)});
  text += Row({"spawner, growth of PSS", Fixed(idle.spawner, 1)});
  text += Row(
      {"kernel objects: unreclaimable slab, stacks, page tables, per-CPU", Fixed(idle.kernel, 0)});
  text += Row(
      {"**sum**", "**" + Fixed(idle.execd + idle.atolld + idle.spawner + idle.kernel, 0) + "**"});
  text += Row({"fall of MemAvailable, the entrypoint included", Fixed(idle.available, 0)});
  return text;
}

std::string StepTable(const ColdResults& cold) {
  const Cold& busybox = cold.rested.at(kBusyboxImage);
  const Cold& debian = cold.rested.at(kDebianImage);
  std::string text = Head({"step, mean µs with rest", "busybox", "Debian"});
  double sums[2] = {0, 0};
  for (size_t i = 0; i < static_cast<size_t>(wire::Step::kCount); ++i) {
    const auto step = static_cast<wire::Step>(i);
    const std::string name(wire::StepName(step));
    if (step == wire::kFirstBuildStep) {
      text += Row({"**a slot**, all steps, ahead of time", Fixed(sums[0], 0), ""});
      sums[0] = sums[1] = 0;
    }
    const auto mean = [&name](const Cold& of) {
      const auto found = of.step_micros.find(name);
      return found == of.step_micros.end() ? 0 : found->second;
    };
    if (step < wire::kFirstBuildStep) {
      // One slot for each create of either image; which create it is made during is chance.
      const double slot = (mean(busybox) + mean(debian)) / 2;
      sums[0] += slot;
      text += Row({name, Fixed(slot, 0), ""});
      continue;
    }
    sums[0] += mean(busybox);
    sums[1] += mean(debian);
    text += Row({name, Fixed(mean(busybox), 0), Fixed(mean(debian), 0)});
  }
  text += Row({"**a build**, all steps", Fixed(sums[0], 0), Fixed(sums[1], 0)});
  text += Row({"build, as the daemon sees it", Fixed(busybox.build_micros, 0),
               Fixed(debian.build_micros, 0)});
  return text;
}

struct Promise {
  std::string what;
  double measured;
  double bound;
  const char* unit;
  bool at_least = false;
};

Promise ColdPromise(const Results& results, const ImageName& image) {
  return {"cold create → first output, p50, " + std::string(image.text),
          results.cold.rested.at(image.image).first.p50(), 3, "ms"};
}

std::vector<Promise> Promises(const Results& results) {
  std::vector<Promise> promises;
  if (HasCold(results)) {
    for (const ImageName& image : kImageNames) promises.push_back(ColdPromise(results, image));
    if (const PeerTimes* crun = Crun(results.cold)) {
      for (const auto& [image, name] : kImageNames) {
        promises.push_back({std::string("the same ÷ crun run, ") + name,
                            results.cold.rested.at(image).first.p50() / crun->rested.p50(), 1, ""});
      }
    }
  }
  if (HasExec(results)) {
    const ExecResults& exec = results.exec;
    promises.push_back({"command with sh, p50", exec.sh_rested.complete.p50(), 0.8, "ms"});
    promises.push_back({"command with bash − `bash -c` alone, p50",
                        exec.bash_rested.complete.p50() - exec.host_bash_rested.p50(), 0.4, "ms"});
  }
  for (const Burst& burst : results.bursts) {
    if (burst.size != 100) continue;
    promises.push_back({"100 creates at once: failed", static_cast<double>(burst.failed), 0, ""});
    promises.push_back({"100 creates at once: wall", burst.wall.p50(), 500, "ms"});
  }
  if (results.deletes.answered.size() > 0) {
    promises.push_back({"delete answered, p50", results.deletes.answered.p50(), 1, "ms"});
    promises.push_back({"delete → everything gone, p50", results.deletes.gone.p50(), 200, "ms"});
  }
  double best = 0;
  for (const Throughput& one : results.throughput) best = std::max(best, one.per_second);
  if (best > 0) promises.push_back({"create + command + delete", best, 240, "a second", true});
  const Idle& idle = results.idle;
  if (idle.sandboxes > 0) {
    promises.push_back({"memory of an idle sandbox",
                        (idle.execd + idle.atolld + idle.spawner + idle.kernel) / 1024, 1.5,
                        "MiB"});
  }
  return promises;
}

}  // namespace

std::string RenderTables(const Results& results) {
  const HostFacts& host = results.host;
  std::string text = host.cpu + ", Linux " + host.kernel + ", cgroup " + host.cgroup + ", " +
                     host.file_system + ", load before " + host.load +
                     "; n = " + std::to_string(results.count) + ".\n";
  if (HasCold(results)) text += ColdTable(results);
  if (HasExec(results)) text += ExecTable(results.exec);
  text += LoadTables(results);
  if (results.idle.sandboxes > 0) text += IdleTable(results.idle);
  if (HasCold(results)) text += StepTable(results.cold);
  return text;
}

std::string RenderPromises(const Results& results) {
  std::string text = Head({"promise", "bound", "measured", ""});
  for (const Promise& promise : Promises(results)) {
    const bool met =
        promise.at_least ? promise.measured >= promise.bound : promise.measured <= promise.bound;
    const std::string unit = *promise.unit ? std::string(" ") + promise.unit : "";
    text += Row({promise.what, (promise.at_least ? "≥ " : "≤ ") + Fixed(promise.bound, 1) + unit,
                 Fixed(promise.measured, 2) + unit, met ? "met" : "**not met**"});
  }
  return text;
}

std::vector<std::string> Violations(const Results& results) {
  std::vector<std::string> found;
  for (const Burst& burst : results.bursts) {
    if (burst.failed == 0) continue;
    found.push_back(std::to_string(burst.failed) + " creates failed in bursts of " +
                    std::to_string(burst.size) + ": " + burst.error);
  }
  const PeerTimes* crun = Crun(results.cold);
  if (!crun || !HasCold(results)) return found;
  for (const auto& [image, name] : kImageNames) {
    const double ours = results.cold.rested.at(image).first.p50();
    if (ours <= crun->rested.p50()) continue;
    found.push_back(std::string(name) + ": first output after " + Ms(ours) +
                    " ms, crun run after " + Ms(crun->rested.p50()) + " ms (p50)");
  }
  return found;
}

}  // namespace atl::bench
