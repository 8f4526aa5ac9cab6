"""The tables of docs/roles.md, which tests of rights are generated from, and what the parameters of its routes name."""
import re

import atoll

ROLES = ('viewer', 'developer', 'operator', 'auditor', 'admin')
# Parameter of a route of the API → the kind of thing that it names.
NAMED = {'sandbox_id': 'sandbox', 'snapshot_id': 'snapshot', 'name': 'volume', 'name:path': 'image',
         'pool_name': 'pool', 'template_id': 'template', 'tenant': 'tenant', 'key_id': 'key'}
# Bodies that are not refused for their form.
BODIES = {'/sandboxes/{sandbox_id}/metadata': {'stage': 'taken'},
          '/sandboxes/{sandbox_id}/renew-expiration': {'expiresAt': '2100-01-01T00:00:00Z'},
          '/sandboxes/{sandbox_id}/rollback': {'snapshotId': '00000000-0000-4000-8000-000000000001'},
          '/sandboxes/{sandbox_id}/networkpolicy': {'defaultAction': 'allow'},
          '/pools/{pool_name}': {'capacitySpec': {'bufferMin': 0, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 1}},
          '/tenants/{tenant}/keys': {'role': 'developer'}}


def rows(section):
    """(method, pattern, role → cell) of each row of the table below a heading that begins with `section`."""
    page = (atoll.TOP / 'docs/roles.md').read_text(encoding='utf-8')
    table = page.partition(f'\n## {section}')[2].partition('\n## ')[0]
    found = [(method, pattern, dict(zip(ROLES, (cell.strip() for cell in cells.split('|')))))
             for method, pattern, cells in re.findall(r'^\| `([A-Z*]+) (/[^`]*)` \|(.*)\|$', table, re.M)]
    assert found, section
    return found


def named_routes():
    """(method, target with @ for the thing, kind of the thing, body) of each route of the API that names one."""
    routes = []
    for method, pattern, _ in rows('API'):
        parameters = re.findall(r'\{([^}]*)\}', pattern)
        if not parameters:
            continue
        target = pattern.replace('{%s}' % parameters[0], '@').replace('{port}', '8000')
        target = re.sub(r'\?(\w+)$', r'?\1=oci', re.sub(r'\{[^}]*\}', 'k_aaaaaaaa', target))
        body = BODIES.get(pattern.partition('?')[0], {}) if method in ('POST', 'PUT', 'PATCH') else None
        routes.append((method, target, NAMED[parameters[0]], body))
    return routes
