"""What turns an experiment into evidence: profiles, registry, runner, results, tables, figures."""
