// Measures connections through the splice proxy against forwarded ones.
#include "bench/clock.h"
#include "bench/phase.h"
#include "bench/splice_lab.h"

namespace atl::bench {
namespace {

constexpr uint64_t kSize = uint64_t{1} << 29;  // shared by all connections

using LabPtr = std::shared_ptr<std::unique_ptr<SpliceLab>>;

std::string NameOf(Path path, Direction direction, size_t at_once) {
  std::string name = direction == Direction::kUp ? "upload" : "download";
  if (at_once > 1) name += ", " + std::to_string(at_once) + " at once";
  return name + (path == Path::kForwarded ? ", forwarded" : ", spliced");
}

// The bound holds for a single flow only.
Phase TransferPhase(const LabPtr& lab, Path path, Direction direction, size_t at_once) {
  const std::string name = NameOf(path, direction, at_once);
  std::vector<Bound> bounds;
  if (path == Path::kSpliced && at_once == 1) {
    bounds = {{.at_least = 0.7, .over = "splice/" + NameOf(Path::kForwarded, direction, at_once)}};
  }
  return {.series = {{name, "512 MiB in all, first byte → last", "GB/s", std::move(bounds)},
                     {name + ": processors", "busy meanwhile, of the whole machine", "cores", {}}},
          .samples = 7,
          .turns = "transfers",
          .run = [=](Take& take) -> Status {
            ATOLL_ASSIGN(const Transfer transfer,
                         (*lab)->Measure(path, direction, kSize / at_once, at_once));
            take.Add(name, transfer.bytes_a_second / 1e9);
            take.Add(name + ": processors", transfer.busy_cores);
            return {};
          }};
}

Phase FirstBytePhase(const LabPtr& lab, Path path) {
  const std::string name =
      std::string("first byte") + (path == Path::kForwarded ? ", forwarded" : ", spliced");
  return {.series = {{name, "connect → first byte of an answer", "ms", {}}},
          .samples = 200,
          .rest_ms = 2,
          .turns = "first bytes",
          .run = [=](Take& take) -> Status {
            ATOLL_ASSIGN(const int64_t micros, (*lab)->FirstByte(path));
            take.AddMs(name, micros);
            return {};
          }};
}

}  // namespace

Phases SplicePhases(const Setting&) {
  const auto lab = std::make_shared<std::unique_ptr<SpliceLab>>();
  Phases phases = {{.run = [=](Take&) -> Status {
    ATOLL_ASSIGN(*lab, SpliceLab::Start());
    return {};
  }}};
  for (const size_t at_once : {1, 8}) {
    for (const Direction direction : {Direction::kUp, Direction::kDown}) {
      for (const Path path : {Path::kForwarded, Path::kSpliced}) {
        phases.push_back(TransferPhase(lab, path, direction, at_once));
      }
    }
  }
  for (const Path path : {Path::kForwarded, Path::kSpliced}) {
    phases.push_back(FirstBytePhase(lab, path));
  }
  return phases;
}

}  // namespace atl::bench
