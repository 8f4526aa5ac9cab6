// What a run's messages are to the client: events of the stream that commands have, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "execd/code/kernel_message.h"
#include "execd/run/output_events.h"

namespace atl::execd {

// Appends the events of a message from iopub. "stream" is stdout or stderr, as it came;
// "execute_result" an execution_count and a result; "display_data" and "update_display_data" a
// result; "error" a status and an error. Nothing for any other.
void AppendKernelEvents(std::string* out, const KernelMessage& message, OutputForm form,
                        int64_t unix_ms);

// The content of an "error", or of a reply whose status is that: a status and an error.
void AppendKernelError(std::string* out, const JsonValue& content, int64_t unix_ms);

// An error that is no kernel's: `value` is also its traceback.
void AppendErrorEvent(std::string* out, std::string_view name, std::string_view value,
                      int64_t unix_ms);

}  // namespace atl::execd
