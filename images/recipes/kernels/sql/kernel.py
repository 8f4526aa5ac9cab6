"""Jupyter kernel for SQL, using sqlite. The database is in memory, one for each context, or in the file that SQLITE_FILE
in the environment names. The result is the rows of the last statement, as JSON with columns and rows, or the number of
rows that it has changed.
"""
import json
import os
import sqlite3

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel


def statements(code):
    """Yields complete statements one after another. The last one may lack its semicolon."""
    begun = ''
    for part in code.split(';'):
        begun += part + ';'
        if sqlite3.complete_statement(begun):
            if begun.strip(' \t\r\n;'):
                yield begun
            begun = ''
    if begun.strip(' \t\r\n;'):
        yield begun


def cell(value):
    """Returns values that JSON cannot represent in sqlite's own notation."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else value


class SqlKernel(Kernel):
    implementation, implementation_version, banner = 'atoll', '1', 'SQL'
    language_info = {'name': 'sql', 'mimetype': 'text/x-sql', 'file_extension': '.sql'}

    def __init__(self, **given):
        super().__init__(**given)
        # Transactions belong to the user: BEGIN and COMMIT.
        self.database = sqlite3.connect(os.environ.get('SQLITE_FILE', ':memory:'),
                                        isolation_level=None)
        # Text of a database need not be UTF-8.
        self.database.text_factory = lambda text: text.decode(errors='replace')
        # Python runs a signal's handler only between its own instructions, so this runs some. An exception
        # of the handler ends the statement and arrives as sqlite's error.
        self.database.set_progress_handler(lambda: 0, 10000)

    def do_execute(self, code, silent, *_, **__):
        shown = None
        try:
            for statement in statements(code):
                done = self.database.execute(statement)
                if done.description:
                    shown = {'columns': [column[0] for column in done.description],
                             'rows': [[cell(value) for value in row] for row in done]}
                else:
                    shown = {'columns': ['affected_rows'], 'rows': [[max(done.rowcount, 0)]]}
        except (KeyboardInterrupt, sqlite3.Error, sqlite3.Warning) as error:
            if isinstance(error, KeyboardInterrupt) or str(error) == 'interrupted':
                return self.failed('KeyboardInterrupt', 'the statement was interrupted')
            reading = statement.split(None, 1)[0].upper() in ('SELECT', 'WITH', 'VALUES')
            return self.failed('DBQueryError' if reading else 'DBExecError', str(error))
        if shown is not None and not silent:
            self.send_response(self.iopub_socket, 'execute_result', {
                'execution_count': self.execution_count, 'metadata': {},
                'data': {'text/plain': json.dumps(shown, ensure_ascii=False)}})
        return {'status': 'ok', 'execution_count': self.execution_count, 'payload': [],
                'user_expressions': {}}

    def failed(self, name, value):
        error = {'ename': name, 'evalue': value, 'traceback': [value]}
        self.send_response(self.iopub_socket, 'error', error)
        return {'status': 'error', 'execution_count': self.execution_count, **error}


if __name__ == '__main__':
    IPKernelApp.launch_instance(kernel_class=SqlKernel)
