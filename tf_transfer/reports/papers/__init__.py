"""What only one paper's report needs: a module for each experiment."""
