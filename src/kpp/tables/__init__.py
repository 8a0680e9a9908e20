"""Raw tables to columns: what the command, the report and a service share.

A table is read (`reading`), its target found (`target`), its columns chosen (`columns`), a
preparation and a model fitted (`fitting`) and scored (`scores`); rows of another file are brought
into the model's columns (`rows`, `labelled`); results become files and text (`writing`,
`numbers`). What the user can mend is a `UserError` (`errors`); what is good to know on the way
goes to a `Listener`. pandas, pyarrow and skrub are imported where they are used.
"""
