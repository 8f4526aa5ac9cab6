package org.dflib.jjava.jupyter.channels;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.function.BiConsumer;

/**
 * In place of jjava's class of this name, which made text of whatever was there at a flush: a character of which
 * the rest came behind the flush was lost. Here its bytes wait for the rest, or for the end of the run.
 */
public class JupyterOutputStream extends ByteArrayOutputStream {
  private static final int LONGEST_CHARACTER = 4;
  private final BiConsumer<ShellReplyEnvironment, String> write;
  private ShellReplyEnvironment env;

  public JupyterOutputStream(ShellReplyEnvironment env, BiConsumer<ShellReplyEnvironment, String> write) {
    super(1024);
    this.env = env;
    this.write = write;
  }

  public JupyterOutputStream(BiConsumer<ShellReplyEnvironment, String> write) {
    this(null, write);
  }

  public void setEnv(ShellReplyEnvironment env) {
    this.env = env;
  }

  public void retractEnv(ShellReplyEnvironment env) {
    if (this.env == env) {
      pass(count);
      this.env = null;
    }
  }

  public boolean isAttached() {
    return env != null;
  }

  @Override
  public synchronized void flush() {
    pass(env == null ? count : count - unfinished());
  }

  /** How many bytes at the end begin a character that lacks some. */
  private int unfinished() {
    for (int back = 1; back < LONGEST_CHARACTER && back <= count; back++) {
      int first = buf[count - back] & 0xff;
      if (first >= 0xc2) return back < (first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4) ? back : 0;
      if (first < 0x80) return 0;
    }
    return 0;
  }

  private synchronized void pass(int length) {
    if (env != null && length > 0) write.accept(env, new String(buf, 0, length, StandardCharsets.UTF_8));
    System.arraycopy(buf, length, buf, 0, count - length);
    count -= length;
  }
}
