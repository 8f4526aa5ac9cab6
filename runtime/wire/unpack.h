// What atoll-unpack finds open. argv[1] is "split", "layer", "pack", "copy", or "fork": a copy that
// need not survive the loss of power. Or it is "list" or "archive", of what differs between two
// stacks of layers: "now=", "was=" and "both=" follow, how many are whose.
#pragma once

#include <string_view>

namespace atl::wire {

// The archive or the blob, read-only; of a copy the directory to read; of "pack" the file to write
// to, where it stands; of a difference the pipe to write it into.
inline constexpr int kUnpackInputFd = 3;
// The directory to fill; of "pack" the one to read; of a difference that of the topmost layer.
inline constexpr int kUnpackOutputFd = 4;
// A pipe: the report, or on failure one line that says why. Of a copy a socket, where kCopyStop
// comes before it; any byte is the answer, once nothing is at work on the source; then kCopyGoOn.
// That once to kMostCopyStops times: for a moment ahead of each pass over a source that changes,
// and for the last one.
inline constexpr int kUnpackReportFd = 5;
// And from here on the layers of a difference: those of the one stack, those of the other, and
// those that both have at the bottom; each topmost first.
inline constexpr int kUnpackLayersFd = 6;
inline constexpr std::string_view kCopyStop = "stop\n";
inline constexpr std::string_view kCopyGoOn = "go on\n";
inline constexpr int kMostCopyStops = 5;

}  // namespace atl::wire
