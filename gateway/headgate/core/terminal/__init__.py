"""What a terminal shows: text of any origin, colours, tables, figures. Pure: writes nothing."""
