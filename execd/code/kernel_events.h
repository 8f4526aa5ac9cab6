// Converts the kernel's messages to events of the stream that commands use, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "execd/code/kernel_message.h"
#include "execd/run/output_events.h"

namespace atl::execd {

// Appends the events of an iopub message; none for message types that are not listed.
//   stream                             stdout or stderr, unchanged
//   execute_result                     an execution_count and a result
//   display_data, update_display_data  a result
//   error                              a status and an error
void AppendKernelEvents(std::string* out, const KernelMessage& message, OutputForm form,
                        int64_t unix_ms);

// Appends a status and an error for the content of an "error" message, or of a reply whose status
// is "error".
void AppendKernelError(std::string* out, const JsonValue& content, int64_t unix_ms);

// Appends an error that does not come from the kernel. `value` is also its traceback.
void AppendErrorEvent(std::string* out, std::string_view name, std::string_view value,
                      int64_t unix_ms);

}  // namespace atl::execd
